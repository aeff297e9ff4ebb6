"""Answer the question for one study in a few sentences with numbers."""

import argparse
from pathlib import Path

from howmanygpus.files import write_text_atomic
from howmanygpus.report.answer import answer
from howmanygpus.report.files import read_table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=Path, required=True, help="table of that name")
    parser.add_argument("--scaling", type=Path, required=True, help="table of that name")
    parser.add_argument("--time-to-accuracy", type=Path, required=True, help="table of that name")
    parser.add_argument("--answer", type=Path, required=True, help="text file to write")
    arguments = parser.parse_args()
    text = answer(*(read_table(path) for path in (arguments.runs, arguments.scaling, arguments.time_to_accuracy)))
    write_text_atomic(arguments.answer, text)


if __name__ == "__main__":
    main()
