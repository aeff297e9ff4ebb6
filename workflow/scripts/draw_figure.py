"""Draw one figure of one study."""

import argparse
import json
from pathlib import Path

from howmanygpus.report.figures import describe_figure, load_figure
from howmanygpus.report.files import read_table
from howmanygpus.report.published.protocols import leave_out_unfair
from howmanygpus.report.style import mark_probes, save_figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--figure", required=True, help="module of howmanygpus/report/figures/")
    parser.add_argument("--tables", type=Path, required=True, help="folder of the study's tables")
    parser.add_argument("--svg", type=Path, required=True, help="SVG file to write")
    parser.add_argument("--png", type=Path, required=True, help="PNG file to write")
    parser.add_argument("--decision", type=Path, nargs="?", help="what an adaptive study decided")
    arguments = parser.parse_args()
    described = describe_figure(arguments.figure)
    tables = {name: read_table(arguments.tables / f"{name}.tsv") for name in described.tables}
    tables = tables if described.shows_unfair else leave_out_unfair(tables)
    figure = load_figure(arguments.figure).draw(**tables)
    decision = json.loads(arguments.decision.read_text()) if arguments.decision else {}
    if "probes_of" in decision:
        mark_probes(figure, decision["probes_of"])
    save_figure(figure, arguments.svg, arguments.png)


if __name__ == "__main__":
    main()
