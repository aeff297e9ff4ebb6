"""Answer the question of one study in a few sentences with numbers."""

import argparse
import os
from pathlib import Path

from benchreport.answer import answer
from benchreport.tables import read_table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--scaling", type=Path, required=True)
    parser.add_argument("--time-to-accuracy", type=Path, required=True)
    parser.add_argument("--answer", type=Path, required=True, help="text file to write")
    arguments = parser.parse_args()
    text = answer(*(read_table(path) for path in (arguments.runs, arguments.scaling, arguments.time_to_accuracy)))
    partial = arguments.answer.with_name(f".{arguments.answer.name}.{os.getpid()}")
    partial.write_text(text)
    os.replace(partial, arguments.answer)


if __name__ == "__main__":
    main()
