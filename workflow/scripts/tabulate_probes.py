"""Make one table of the probes' findings on each kind of device."""

import json

from howmanygpus.base.requests import read_request
from howmanygpus.report.files import write_table
from howmanygpus.report.pages.node_checks import tabulate


def main() -> None:
    request = read_request()
    read = [[json.loads(path.read_text()) for path in paths] for paths in (request.input.records, request.input.links)]
    table = tabulate(*read)
    write_table(request.output.probes, table)
    for _, row in table[table["level"].isin(["error", "warning"])].iterrows():
        print(f"{row['device']}: {row['level']}: {row['value']}")


if __name__ == "__main__":
    main()
