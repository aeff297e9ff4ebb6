"""
Write the runs of a results folder for TensorBoard, Weights & Biases or MLflow.

The tool's library is installed into an environment of its own at the first call.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from howmanygpus.clone import LIBRARY
from howmanygpus.config.errors import ConfigError, refuse_choice
from howmanygpus.report.files import read_table
from howmanygpus.site.environments.build import build_environment
from howmanygpus.site.environments.cache import CacheError, check_cache
from howmanygpus.site.environments.pins import list_pin_files
from howmanygpus_tools.export import TOOLS
from howmanygpus_tools.export.records import make_records


def choose_studies(results: Path, study: str | None) -> list[str]:
    """Return the studies with tables, or the one that was named. Raises ConfigError."""
    found = sorted(path.parent.name for path in results.glob("results/tables/*/epochs.tsv"))
    if not found:
        remedy = "name a clone with results, and make its tables by the target `available`"
        raise ConfigError(f"--results: {str(results)!r} has no results/tables/STUDY/epochs.tsv; {remedy}")
    if study is not None and study not in found:
        raise refuse_choice("--study", study, "study with tables", found)
    return [study] if study else found


def read_records(results: Path, study: str) -> list[dict]:
    plan = json.loads((results / "results" / "plans" / f"{study}.json").read_text())
    runs, epochs = (read_table(results / "results" / "tables" / study / f"{name}.tsv") for name in ("runs", "epochs"))
    return make_records(plan, runs, epochs, results)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--to", required=True, metavar="TOOL", help=f"one of {', '.join(TOOLS)}")
    parser.add_argument("--results", type=Path, default=Path(), help="the clone that holds results/ (default this one)")
    parser.add_argument("--study", help="export this study only")
    parser.add_argument("--folder", type=Path, help="where to write (default results/export/TOOL)")
    arguments = parser.parse_args()
    try:
        if arguments.to not in TOOLS:
            raise refuse_choice("--to", arguments.to, "tool to export to", TOOLS)
        studies = choose_studies(arguments.results, arguments.study)
        check_cache()
    except (ConfigError, CacheError) as error:
        sys.exit(str(error))
    records = [record for study in studies for record in read_records(arguments.results, study)]
    if not records:
        sys.exit(f"--results: no run of {', '.join(studies)} has completed; do the runs first")
    folder = arguments.folder or Path("results") / "export" / arguments.to
    python = build_environment(arguments.to, list_pin_files(arguments.to))["python"]
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch, "records.json")
        path.write_text(json.dumps(records, allow_nan=False))
        command = [python, "-m", "howmanygpus_tools.export.write", "--to", arguments.to]
        ended = subprocess.run([*command, "--records", str(path), "--folder", str(folder)], env=make_variables(scratch))
    if ended.returncode:
        sys.exit(f"{arguments.to} could not write {folder}: see its message above")
    print(f"{len(records)} runs are in {folder}. To see them: {TOOLS[arguments.to].format(folder=folder)}")


def make_variables(scratch: str) -> dict[str, str]:
    """Return the variables of the tool's process: nothing that a user set for its library sends anything anywhere."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("WANDB_", "MLFLOW_"))}
    own = {f"WANDB_{name}": f"{scratch}/wandb" for name in ("CACHE_DIR", "CONFIG_DIR", "DATA_DIR")}
    return kept | own | {"PYTHONPATH": str(LIBRARY)}


if __name__ == "__main__":
    main()
