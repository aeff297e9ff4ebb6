"""Collect the parity gate's verdicts into one table and one page."""

import argparse
import json
from pathlib import Path

from howmanygpus.files import write_text_atomic
from howmanygpus.gate.page import render_page, tabulate
from howmanygpus.report.files import write_table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--verdicts", type=Path, nargs="*", required=True)
    parser.add_argument("--planned", type=json.loads, default={}, help="JSON: see study.gate_cells.describe_planned")
    parser.add_argument("--table", type=Path, required=True)
    parser.add_argument("--page", type=Path, required=True)
    arguments = parser.parse_args()
    verdicts = [
        json.loads(path.read_text()) | {"task": path.parent.name, "planned": arguments.planned.get(str(path), {})}
        for path in arguments.verdicts
    ]
    table = tabulate(verdicts)
    write_table(arguments.table, table)
    write_text_atomic(arguments.page, render_page(table))


if __name__ == "__main__":
    main()
