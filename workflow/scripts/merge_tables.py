"""Join all studies' tables of one name into one table. A record that several studies share has one row."""

import argparse
from pathlib import Path

import pandas as pd

from howmanygpus.report.files import read_table, write_table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", type=Path, nargs="+", required=True, help="tables with the same columns")
    parser.add_argument("--table", type=Path, required=True, help="table to write")
    arguments = parser.parse_args()
    parts = [read_table(part) for part in arguments.parts]
    full = [part for part in parts if len(part)] or parts[:1]
    table = pd.concat(full, ignore_index=True).convert_dtypes()
    write_table(arguments.table, table.drop_duplicates("record", keep="last") if "record" in table else table)


if __name__ == "__main__":
    main()
