"""Join all studies' tables of one name into one table. A record that several studies share has one row."""

import argparse
from pathlib import Path

from howmanygpus.report.rows.merging import merge_tables


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", type=Path, nargs="+", required=True, help="tables with the same columns")
    parser.add_argument("--table", type=Path, required=True, help="table to write")
    arguments = parser.parse_args()
    merge_tables(arguments.parts, arguments.table)


if __name__ == "__main__":
    main()
