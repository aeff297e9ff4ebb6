"""Answer the question for one study in a few sentences with numbers."""

import argparse
from pathlib import Path

from howmanygpus.files import write_text_atomic
from howmanygpus.report.answer import answer
from howmanygpus.report.files import read_table

TABLES = ("runs", "scaling", "time_to_accuracy", "datasets", "jobs", "batch_sizes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=Path, required=True, help="folder of the study's tables")
    parser.add_argument("--answer", type=Path, required=True, help="text file to write")
    arguments = parser.parse_args()
    tables = {name: read_table(arguments.tables / f"{name}.tsv") for name in TABLES}
    write_text_atomic(arguments.answer, answer(**tables))


if __name__ == "__main__":
    main()
