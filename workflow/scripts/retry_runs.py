"""
Move runs and verdicts with chosen outcomes aside, so that the next call of snakemake does them again.

Nothing is deleted: the folder of a run moves to results/attempts/, beside its failed attempts, and a verdict of the
parity gate moves to results/attempts/parity/ with the observations on which it is based. If a verdict refused a run,
both are moved, because the same verdict would refuse the run again. Runs whose verdict is set aside are done again
after it.

    .venv/bin/python workflow/scripts/retry_runs.py --status out_of_memory --study digits
    .venv/bin/python workflow/scripts/retry_runs.py --status failed_parity
    .venv/bin/python workflow/scripts/retry_runs.py --verdicts unsupported
    .venv/bin/python workflow/scripts/retry_runs.py --disturbed
    .venv/bin/python workflow/scripts/retry_runs.py --unhealthy
"""

import argparse
import json
import os
import re
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

from howmanygpus.config.errors import ConfigError, refuse_choice
from howmanygpus.config.schema import read_schema
from howmanygpus.paths import ATTEMPTS, RUNS
from howmanygpus.report.disturbance import is_disturbed
from howmanygpus.report.tables.helpers.device_health import compare_devices, judge_run, list_devices
from howmanygpus.site.jobs.invocations import list_living_calls

PARITY = Path("results/parity")
VERDICTS = ("passed", "failed", "unsupported", "not_checked")
"""Statuses of the parity gate, and of runs without it."""
REFUSED_BY = re.compile(r"; see (results/parity/.+\.json)$")
"""The end of the reason of a run that a verdict refused; see howmanygpus.site.jobs.attempts."""


def check_choices(statuses: list[str], verdicts: list[str], study: str | None) -> None:
    """Raise ConfigError for an outcome, a verdict or a study that does not exist, and name the existing ones."""
    records = read_schema("run")["$defs"]
    outcomes, endings = (records[kind]["properties"]["status"]["enum"] for kind in ("run", "attempt"))
    for status in statuses:
        if status in endings:
            raise ConfigError(f"--status: a run that ended as {status} has no outcome; the next call tries it anyway")
        if status not in outcomes:
            raise refuse_choice("--status", status, "outcome of a run", outcomes)
    for verdict in verdicts:
        if verdict not in VERDICTS:
            raise refuse_choice("--verdicts", verdict, "verdict of the parity gate", VERDICTS)
    studies = [path.name for path in RUNS.glob("*/")]
    if study is not None and study not in studies:
        if not studies:
            raise ConfigError(f"--study: {study}: {RUNS} has no runs yet; call snakemake first")
        raise refuse_choice("--study", study, "study with runs here", studies)


def refuse_beside_calls() -> None:
    """Raise ConfigError while a call of Snakemake works here: it would miss the runs that it has counted as done."""
    if living := list_living_calls():
        raise ConfigError(
            f"a call of Snakemake is at work in this folder: {living[0].describe()}. It would miss what is set aside. "
            "Wait for its end or press Ctrl-C in its terminal; then give this command again"
        )


def list_records(study: str | None) -> list[Path]:
    """List the records of the runs of a study; of all studies if none is named."""
    return sorted((RUNS / study if study else RUNS).rglob("run.json"))


def select_runs(statuses: set[str], with_disturbed: bool, study: str | None) -> list[Path]:
    """Return the folders of the runs with one of the statuses or, on request, of runs that other work disturbed."""
    return [path.parent for path in list_records(study) if _is_chosen(path, statuses, with_disturbed)]


def _is_chosen(path: Path, statuses: set[str], with_disturbed: bool) -> bool:
    """Return whether a run is chosen. As in the table of runs, only completed runs can be disturbed."""
    record = json.loads(path.read_text())
    has_status = record["status"] in statuses
    return has_status or (with_disturbed and record["status"] == "completed" and bool(is_disturbed(record)))


def select_unhealthy(study: str | None) -> list[Path]:
    """Return the folders of the runs with a finding on their devices or hosts."""
    records = {path.parent: json.loads(path.read_text()) for path in list_records(study)}
    comparisons = compare_devices(list_devices(records.values()))
    return [folder for folder, record in records.items() if judge_run(record, comparisons)]


def select_verdicts(statuses: set[str]) -> list[Path]:
    """Return the files of the verdicts that have one of the statuses."""
    verdicts = (path for path in sorted(PARITY.glob("*/*.json")) if path.parent.name != "observed")
    return [path for path in verdicts if json.loads(path.read_text()).get("status") in statuses]


def find_refusal(run: Path) -> Path | None:
    """Return the verdict that refused a run, if one did and still exists."""
    match = REFUSED_BY.search(json.loads((run / "run.json").read_text())["reason"])
    verdict = Path(match[1]) if match else None
    return verdict if verdict and verdict.exists() else None


def locate_observations(verdict: Path) -> list[Path]:
    """Return the record on which a verdict is based, and the folder beside it, if they exist."""
    observed = json.loads(verdict.read_text()).get("observed")
    record = Path(observed) if observed else None
    return [path for path in (record, record.with_suffix("")) if path.exists()] if record else []


def describe_nothing(arguments: argparse.Namespace) -> str:
    """Say that nothing was found, where, and for which outcomes."""
    chosen = [*arguments.status, *(word for word in ("disturbed", "unhealthy") if getattr(arguments, word))]
    looked = []
    if chosen:
        folder = RUNS / arguments.study if arguments.study else RUNS
        looked.append(f"none of the {len(list_records(arguments.study))} runs in {folder} is {' or '.join(chosen)}")
    if arguments.verdicts:
        looked.append(f"no verdict in {PARITY} is {' or '.join(arguments.verdicts)}")
    return ", and ".join(looked)


def move_aside(path: Path, place: Path) -> Path:
    """Move a file or folder into the folder `place` below results/attempts/ and return its new path."""
    moment = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    folder = ATTEMPTS / place / f"set-aside-{moment}-{os.getpid()}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir() and path.is_relative_to(RUNS):
        os.replace(path, folder)
        return folder
    folder.mkdir(exist_ok=True)
    os.replace(path, folder / path.name)
    return folder / path.name


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--status", nargs="+", default=[], help="outcomes to retry, e.g. out_of_memory diverged")
    parser.add_argument("--verdicts", nargs="+", default=[], help="verdicts to judge anew, e.g. failed unsupported")
    parser.add_argument(
        "--disturbed", action="store_true", help="retry completed runs that other work on the machine disturbed"
    )
    parser.add_argument(
        "--unhealthy", action="store_true", help="retry runs with a finding on their devices or hosts (see health.tsv)"
    )
    parser.add_argument("--study", help="only this study's runs")
    arguments = parser.parse_args()
    if not (arguments.status or arguments.verdicts or arguments.disturbed or arguments.unhealthy):
        parser.error(
            "name outcomes of runs after --status, of the gate after --verdicts, or --disturbed, or --unhealthy"
        )
    try:
        check_choices(arguments.status, arguments.verdicts, arguments.study)
        refuse_beside_calls()
    except ConfigError as error:
        parser.error(str(error))
    runs = select_runs(set(arguments.status), arguments.disturbed, arguments.study)
    runs += [run for run in (select_unhealthy(arguments.study) if arguments.unhealthy else []) if run not in runs]
    refusals = [verdict for run in runs if (verdict := find_refusal(run))]
    verdicts = list(dict.fromkeys([*select_verdicts(set(arguments.verdicts)), *refusals]))
    if not (runs or verdicts):
        print(f"Nothing is set aside: {describe_nothing(arguments)}.")
        return
    observations = dict.fromkeys(path for verdict in verdicts for path in locate_observations(verdict))
    for run in runs:
        print(f"{run} -> {move_aside(run, run.relative_to(RUNS))}")
    for path in (*verdicts, *observations):
        print(f"{path} -> {move_aside(path, path.parent.relative_to(PARITY.parent))}")
    print(f"{len(runs)} runs and {len(verdicts)} verdicts set aside; the next call of snakemake does them again.")


if __name__ == "__main__":
    main()
