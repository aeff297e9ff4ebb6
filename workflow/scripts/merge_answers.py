"""Join the answers of all studies, and add the bill of all jobs of several studies together."""

import argparse
from pathlib import Path

from howmanygpus.files import write_text_atomic
from howmanygpus.report.answer.bill import add_up_bill
from howmanygpus.report.answer.texts import render_bill
from howmanygpus.report.files import TOGETHER, read_table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=Path, nargs="+", required=True, help="folder of each study's answers")
    parser.add_argument("--jobs", type=Path, required=True, help="table of the jobs of all studies")
    parser.add_argument(
        "--answers", type=Path, nargs="+", required=True, help="files to write, named like the studies'"
    )
    arguments = parser.parse_args()
    bill = add_up_bill(read_table(arguments.jobs)) if len(arguments.studies) > 1 else None
    for path in arguments.answers:
        texts = [(study / path.name).read_text() for study in arguments.studies]
        if bill:
            texts.append(f"{TOGETHER}\n\n{render_bill(bill)}")
        write_text_atomic(path, "\n\n".join(texts))


if __name__ == "__main__":
    main()
