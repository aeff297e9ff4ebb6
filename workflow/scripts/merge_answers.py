"""Join the answers of all studies. Several begin with a first screen of their own, and have the bill of all jobs."""

import json

from howmanygpus.base.requests import read_request
from howmanygpus.files import write_text_atomic
from howmanygpus.report.answer.bill import add_up_bill
from howmanygpus.report.answer.texts import render_bill, render_overview
from howmanygpus.report.files import read_table


def main() -> None:
    request = read_request()
    given, made = request.input, request.output
    texts, markdowns = ([path.read_text() for path in paths] for paths in (given.texts, given.markdowns))
    if len(texts) > 1:
        bill = add_up_bill(read_table(given.jobs))
        texts.insert(0, render_overview([json.loads(path.read_text()) for path in given.facts], bill))
        markdowns += [render_bill(bill)] if bill else []
    for path, parts in ((made.texts, texts), (made.markdowns, markdowns)):
        write_text_atomic(path, "\n\n".join(parts))


if __name__ == "__main__":
    main()
