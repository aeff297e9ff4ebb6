"""Make the runs and evaluations tables of one study from whatever runs exist."""

import argparse
import json
from pathlib import Path

from benchreport.runs import collect
from benchreport.tables import write_table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plan", type=Path, required=True)
    parser.add_argument("--runs", type=Path, required=True, help="table to write: one row per planned run")
    parser.add_argument("--evaluations", type=Path, required=True, help="table to write: one row per evaluation")
    arguments = parser.parse_args()
    runs, evaluations = collect(json.loads(arguments.plan.read_text()))
    write_table(arguments.runs, runs)
    write_table(arguments.evaluations, evaluations)


if __name__ == "__main__":
    main()
