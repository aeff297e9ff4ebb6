"""Compare the variants of one study, from its runs table."""

import argparse
import json
from pathlib import Path

from benchreport.tables import read_table, write_table
from benchreport.variants import compute_variants


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plan", type=Path, required=True)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--variants", type=Path, required=True, help="table to write")
    arguments = parser.parse_args()
    variants = list(json.loads(arguments.plan.read_text())["config"]["variants"])
    write_table(arguments.variants, compute_variants(read_table(arguments.runs), variants))


if __name__ == "__main__":
    main()
