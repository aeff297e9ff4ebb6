"""Join the tables of all studies that have the same name. A record that several studies share has one row."""

import argparse
from pathlib import Path

from howmanygpus.report.rows import merge_tables


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", nargs="+", required=True, help="names of the tables")
    parser.add_argument("--studies", nargs="+", required=True, help="names of the studies, in the order of their rows")
    parser.add_argument("--folder", type=Path, required=True, help="folder with the folders of the studies' tables")
    arguments = parser.parse_args()
    for table in arguments.tables:
        parts = [arguments.folder / study / f"{table}.tsv" for study in arguments.studies]
        merge_tables(parts, arguments.folder / f"{table}.tsv")


if __name__ == "__main__":
    main()
