"""Write the page of all runs: a table to sort and filter, what the record of each run says, and a figure of rates."""

import argparse
from pathlib import Path

from howmanygpus.files import write_text_atomic
from howmanygpus.report.files import read_table, read_texts
from howmanygpus.report.pages.all_runs import collect, match_configurations, render
from howmanygpus.report.pages.all_runs_figure import draw_svg


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=Path, required=True, help="table of that name over all studies")
    parser.add_argument("--scaling", type=Path, required=True, help="table of that name over all studies")
    parser.add_argument("--timelines", type=Path, nargs="+", required=True, help="table of that name of each study")
    parser.add_argument("--page", type=Path, required=True, help="HTML file to write")
    arguments = parser.parse_args()
    runs, scaling = read_table(arguments.runs), read_table(arguments.scaling)
    facts = collect(read_texts(arguments.runs).to_dict("records"), runs, map(read_table, arguments.timelines))
    rows = match_configurations(scaling, runs)
    figures = {study: draw_svg(own, rows[own.index].tolist()) for study, own in scaling.groupby("study", sort=False)}
    drawn = {study: figure for study, figure in figures.items() if figure}
    write_text_atomic(arguments.page, render(facts, drawn))


if __name__ == "__main__":
    main()
