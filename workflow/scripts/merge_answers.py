"""Join the answers of all studies, and add the bill of all jobs of several studies together."""

from howmanygpus.base.requests import read_request
from howmanygpus.files import write_text_atomic
from howmanygpus.report.answer.bill import add_up_bill
from howmanygpus.report.answer.texts import render_bill
from howmanygpus.report.files import TOGETHER, read_table


def main() -> None:
    request = read_request()
    bill = add_up_bill(read_table(request.input.jobs)) if len(request.input.texts) > 1 else None
    for form, path in vars(request.output).items():
        texts = [answer.read_text() for answer in getattr(request.input, form)]
        if bill:
            texts.append(f"{TOGETHER}\n\n{render_bill(bill)}")
        write_text_atomic(path, "\n\n".join(texts))


if __name__ == "__main__":
    main()
