"""Answer the question for one study in a few sentences with numbers."""

import argparse
import json
from pathlib import Path

from howmanygpus.files import write_text_atomic
from howmanygpus.report.answer import answer
from howmanygpus.report.files import read_table

TABLES = ("runs", "scaling", "time_to_accuracy", "datasets", "jobs", "batch_sizes", "protocols", "explanations")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=Path, required=True, help="folder of the study's tables")
    parser.add_argument("--decision", type=Path, nargs="?", help="why runs of an adaptive study are not done")
    parser.add_argument("--answer", type=Path, required=True, help="text file to write")
    parser.add_argument("--batch-search", type=Path, nargs="?", help="table of the searches for the largest batch")
    arguments = parser.parse_args()
    tables = {name: read_table(arguments.tables / f"{name}.tsv") for name in TABLES}
    tables["batch_search"] = read_table(arguments.batch_search) if arguments.batch_search else None
    decision = json.loads(arguments.decision.read_text()) if arguments.decision else None
    write_text_atomic(arguments.answer, answer(**tables, decision=decision))


if __name__ == "__main__":
    main()
