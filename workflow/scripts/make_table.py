"""Make one table of one study."""

import argparse
import json
from pathlib import Path

from howmanygpus.report.files import read_table, write_table
from howmanygpus.report.tables import list_inputs, load_table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name", required=True, help="module of report/tables/")
    parser.add_argument("--plan", type=Path, required=True, help="plan of the study")
    parser.add_argument("--tables", type=Path, required=True, help="folder of the study's tables")
    parser.add_argument("--allreduces", type=Path, nargs="*", default=[], help="records of the preflight")
    parser.add_argument("--table", type=Path, required=True, help="table to write")
    arguments = parser.parse_args()
    table = load_table(arguments.name)
    inputs = {name: read_table(arguments.tables / f"{name}.tsv") for name in list_inputs(arguments.name)}
    if "results" in table.READS:
        inputs["results"] = Path()
    if "allreduces" in table.READS:
        inputs["allreduces"] = [json.loads(path.read_text()) for path in arguments.allreduces]
    write_table(arguments.table, table.tabulate(json.loads(arguments.plan.read_text()), **inputs))


if __name__ == "__main__":
    main()
