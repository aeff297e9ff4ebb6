"""Make tables of one study, in the given order: a table may be made from those before it."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from howmanygpus.measure.around.schema import RecordError
from howmanygpus.report.files import read_table, write_table
from howmanygpus.report.published import PublishedError
from howmanygpus.report.tables import describe_table, load_table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", required=True, nargs="+", help="modules of howmanygpus/report/tables/")
    parser.add_argument("--plan", type=Path, required=True, help="plan of the study")
    parser.add_argument("--folder", type=Path, required=True, help="folder of the study's tables")
    parser.add_argument("--allreduces", type=Path, nargs="*", default=[], help="records of all-reduces")
    parser.add_argument("--ledger", type=Path, nargs="?", help="list of the records of jobs")
    parser.add_argument("--published", type=Path, nargs="*", default=[], help="published numbers and their sources")
    parser.add_argument("--decision", type=Path, nargs="?", help="why runs of an adaptive study are not done")
    parser.add_argument(
        "--searches", type=Path, nargs="*", default=[], help="records of searches for the largest batch"
    )
    parser.add_argument(
        "--failed-searches", type=Path, nargs="*", default=[], help="files NAME.failed.json of searches that failed"
    )
    arguments = parser.parse_args()
    plan = json.loads(arguments.plan.read_text())
    for name in arguments.tables:
        try:
            table = load_table(name).tabulate(plan, **read_inputs(name, arguments))
        except (RecordError, PublishedError) as error:
            sys.exit(str(error))
        write_table(arguments.folder / f"{name}.tsv", table)


def read_inputs(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return what a table is made from, besides the plan."""
    described = describe_table(name)
    inputs: dict[str, Any] = {each: read_table(arguments.folder / f"{each}.tsv") for each in described.inputs}
    if "results" in described.reads:
        inputs["results"] = Path()
    if "allreduces" in described.reads:
        inputs["allreduces"] = [json.loads(path.read_text()) for path in arguments.allreduces]
    if "ledger" in described.reads:
        inputs["ledger"] = json.loads(arguments.ledger.read_text())
    if "published" in described.reads:
        inputs["published"] = arguments.published
    if "searches" in described.reads:
        # The file of a search that failed is older than a record beside it.
        failed = {Path(path.stem).stem: path for path in arguments.failed_searches}
        ended = {path.stem: path for path in arguments.searches}
        inputs["searches"] = {name: json.loads(path.read_text()) for name, path in (failed | ended).items()}
    if "decision" in described.reads:
        inputs["decision"] = json.loads(arguments.decision.read_text()) if arguments.decision else None
    return inputs


if __name__ == "__main__":
    main()
