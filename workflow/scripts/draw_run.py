"""Draw the timeline of one run, or of an attempt at one, with more detail than in the report."""

import json
from pathlib import Path

import pandas as pd

from howmanygpus.base.requests import read_request
from howmanygpus.report.figures.timelines import draw_run, read_timeline
from howmanygpus.report.rows import name_count
from howmanygpus.report.style import draw_empty_figure, save_svg
from howmanygpus.report.telemetry import read_telemetry
from howmanygpus.report.timelines import describe_run, read_events

NUM_BINS = 1000


def main() -> None:
    request = read_request()
    path = Path(request.values.record)
    record = json.loads(path.read_text())
    events, wall_time_s = read_events(path.parent), record.get("wall_time_s")
    rows = describe_run(read_telemetry(path.parent), events, wall_time_s, NUM_BINS)
    if not rows:
        figure = draw_empty_figure("The run has neither samples nor events.")
    else:
        spec = record["spec"]
        place = path.parent.as_posix().removeprefix("results/")
        title = f"{place}: {record['status']}, {name_count(spec['num_gpus'], 'device')}"
        figure = draw_run(read_timeline(pd.DataFrame(rows), title, spec["framework"]))
    save_svg(figure, request.output.figure)


if __name__ == "__main__":
    main()
