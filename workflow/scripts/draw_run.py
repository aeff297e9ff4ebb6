"""Draw the timeline of one run, or of an attempt at one, with more detail than in the report."""

import argparse
import json
from pathlib import Path

import pandas as pd

from howmanygpus.report.figures.timelines import draw_run, read_timeline
from howmanygpus.report.rows import name_count
from howmanygpus.report.style import draw_empty_figure, save_svg
from howmanygpus.report.tables.timelines import describe_run

NUM_BINS = 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", type=Path, required=True, help="run.json or attempt.json of the run")
    parser.add_argument("--figure", type=Path, required=True, help="SVG to write")
    arguments = parser.parse_args()
    record = json.loads(arguments.record.read_text())
    rows = describe_run(arguments.record.parent, record, NUM_BINS)
    if not rows:
        figure = draw_empty_figure("The run has neither samples nor events.")
    else:
        spec = record["spec"]
        place = arguments.record.parent.as_posix().removeprefix("results/")
        title = f"{place}: {record['status']}, {name_count(spec['num_gpus'], 'device')}"
        figure = draw_run(read_timeline(pd.DataFrame(rows), title, spec["framework"]))
    save_svg(figure, arguments.figure)


if __name__ == "__main__":
    main()
