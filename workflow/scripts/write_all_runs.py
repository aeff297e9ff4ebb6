"""Write the page of all runs: a table to sort and filter, what the record of each run says, and a figure of rates."""

from howmanygpus.base.requests import read_request
from howmanygpus.files import write_text_atomic
from howmanygpus.report.files import read_table, read_texts
from howmanygpus.report.pages.all_runs import collect, match_configurations, render
from howmanygpus.report.pages.all_runs_figure import draw_svg


def main() -> None:
    request = read_request()
    runs, scaling = read_table(request.input.runs), read_table(request.input.scaling)
    timelines = map(read_table, request.input.timelines)
    facts = collect(read_texts(request.input.runs).to_dict("records"), runs, timelines)
    rows = match_configurations(scaling, runs)
    figures = {study: draw_svg(own, rows[own.index].tolist()) for study, own in scaling.groupby("study", sort=False)}
    drawn = {study: figure for study, figure in figures.items() if figure}
    write_text_atomic(request.output.page, render(facts, drawn))


if __name__ == "__main__":
    main()
