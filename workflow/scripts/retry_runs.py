"""
Move runs with chosen outcomes aside, so that the next call of snakemake does them again.

Nothing is deleted: the folder of a run moves to results/attempts/, beside its failed attempts.

    .venv/bin/python workflow/scripts/retry_runs.py --status out_of_memory --study digits
"""

import argparse
import json
import os
import time
from pathlib import Path

RUNS, ATTEMPTS = Path("results/runs"), Path("results/attempts")


def find_runs(statuses: set[str], study: str | None) -> list[Path]:
    """Folders of the runs whose run.json has one of the statuses; of all studies if none is named."""
    records = sorted((RUNS / study if study else RUNS).rglob("run.json"))
    return [path.parent for path in records if json.loads(path.read_text())["status"] in statuses]


def set_aside(run: Path) -> Path:
    """Move the folder of a run and return its new place."""
    moment = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    destination = ATTEMPTS / run.relative_to(RUNS) / f"set-aside-{moment}-{os.getpid()}"
    destination.parent.mkdir(parents=True, exist_ok=True)
    os.replace(run, destination)
    return destination


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--status", nargs="+", required=True, help="outcomes to retry, e.g. out_of_memory diverged")
    parser.add_argument("--study", help="only this study's runs")
    arguments = parser.parse_args()
    runs = find_runs(set(arguments.status), arguments.study)
    for run in runs:
        print(f"{run} -> {set_aside(run)}")
    print(f"{len(runs)} runs set aside; the next call of snakemake does them again.")


if __name__ == "__main__":
    main()
