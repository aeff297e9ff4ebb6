"""Join the tables of one name, or the answers, of all studies.

A record that several studies share has one row. Below several answers is the bill of all jobs together.
"""

import argparse
from pathlib import Path

from howmanygpus.files import write_text_atomic
from howmanygpus.report.answer.cost import describe_bill
from howmanygpus.report.files import TOGETHER, read_table
from howmanygpus.report.rows.merging import merge_tables


def merge_answers(parts: list[Path], jobs: Path) -> str:
    answers = [path.read_text() for path in parts]
    if len(answers) > 1 and (bill := describe_bill(read_table(jobs))):
        answers.append(f"{TOGETHER}\n\n- {bill}\n")
    return "\n".join(answers)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", type=Path, nargs="+", required=True, help="table or answer of each study")
    parser.add_argument("--jobs", type=Path, help="for answers: table of the jobs of all studies")
    parser.add_argument("--merged", type=Path, required=True, help="file to write")
    arguments = parser.parse_args()
    if arguments.jobs:
        write_text_atomic(arguments.merged, merge_answers(arguments.parts, arguments.jobs))
    else:
        merge_tables(arguments.parts, arguments.merged)


if __name__ == "__main__":
    main()
