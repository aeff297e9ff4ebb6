"""Join the answers of all studies, and add the bill of all jobs of several studies together."""

import argparse
from pathlib import Path

from howmanygpus.files import write_text_atomic
from howmanygpus.report.answer.cost import describe_bill
from howmanygpus.report.files import TOGETHER, read_table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--answers", type=Path, nargs="+", required=True, help="the answer of each study")
    parser.add_argument("--jobs", type=Path, required=True, help="table of the jobs of all studies")
    parser.add_argument("--answer", type=Path, required=True, help="text file to write")
    arguments = parser.parse_args()
    answers = [path.read_text() for path in arguments.answers]
    if len(answers) > 1 and (bill := describe_bill(read_table(arguments.jobs))):
        answers.append(f"{TOGETHER}\n\n- {bill}\n")
    write_text_atomic(arguments.answer, "\n".join(answers))


if __name__ == "__main__":
    main()
