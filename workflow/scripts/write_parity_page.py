"""Collect the parity gate's verdicts into one table and one page."""

import json

from howmanygpus.base.requests import read_request
from howmanygpus.files import write_text_atomic
from howmanygpus.gate.page import render_page, tabulate
from howmanygpus.report.files import write_table


def main() -> None:
    request = read_request()
    # See howmanygpus.study.gate_cells.describe_planned.
    planned = request.values.planned
    verdicts = [
        json.loads(path.read_text()) | {"task": path.parent.name, "planned": planned.get(str(path), {})}
        for path in request.input.verdicts
    ]
    table = tabulate(verdicts)
    write_table(request.output.table, table)
    write_text_atomic(request.output.page, render_page(table))


if __name__ == "__main__":
    main()
