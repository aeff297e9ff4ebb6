"""Make tables of one study, in the order of the outputs: a table may be made from those before it."""

import json
import sys

from howmanygpus.base.requests import read_request
from howmanygpus.measure.around.schema import RecordError
from howmanygpus.report.files import read_table, write_table
from howmanygpus.report.published import PublishedError
from howmanygpus.report.tables import describe_table, load_table
from howmanygpus.report.tables.helpers.sources import READERS


def main() -> None:
    request = read_request()
    plan = json.loads(request.input.plan.read_text())
    given = vars(request.input) | vars(request.values)
    for path in request.output.tables:
        described = describe_table(path.stem)
        inputs = {name: read_table(path.with_name(f"{name}.tsv")) for name in described.inputs}
        inputs |= {name: READERS[name](given.get(name, [])) for name in described.sources}
        try:
            table = load_table(path.stem).tabulate(plan, **inputs)
        except (RecordError, PublishedError) as error:
            sys.exit(str(error))
        write_table(path, table)


if __name__ == "__main__":
    main()
