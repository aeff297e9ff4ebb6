"""Make the time-to-accuracy table of one study from its evaluations."""

import argparse
import json
from pathlib import Path

from benchreport.tables import read_table, write_table
from benchreport.thresholds import compute_time_to_accuracy


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plan", type=Path, required=True)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--evaluations", type=Path, required=True)
    parser.add_argument("--time-to-accuracy", type=Path, required=True, help="table to write")
    arguments = parser.parse_args()
    quality = json.loads(arguments.plan.read_text())["config"]["quality"]
    table = compute_time_to_accuracy(read_table(arguments.runs), read_table(arguments.evaluations), quality)
    write_table(arguments.time_to_accuracy, table)


if __name__ == "__main__":
    main()
