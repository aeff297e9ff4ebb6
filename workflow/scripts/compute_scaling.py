"""Make the scaling table of one study from its runs table."""

import argparse
import json
from pathlib import Path

from benchreport.scaling import compute_scaling
from benchreport.tables import read_table, write_table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plan", type=Path, required=True)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--scaling", type=Path, required=True, help="table to write")
    arguments = parser.parse_args()
    curves = json.loads(arguments.plan.read_text())["curves"]
    write_table(arguments.scaling, compute_scaling(read_table(arguments.runs), curves))


if __name__ == "__main__":
    main()
