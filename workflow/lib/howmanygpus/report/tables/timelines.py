"""
What the devices and hosts of each run did over time, and the phases of the run, downsampled for figures.

Each run has one row for its phases, one for each device and one for each host (`host`, per node). A series is a list of
NUM_BINS values between commas, of equal bins of `bin_s` seconds from the launcher's start to the end of the run; an
empty one has no samples. Utilisation and disk rates are means, memory is the maximum. The phases are the shares of each
bin that the first step, training and evaluation take; the rest is start-up, logging and waiting. `run_dir` names the
run as in the table `runs`. Runs that were tried and have no outcome are not listed.
"""

import json
from pathlib import Path

import pandas as pd

from howmanygpus.paths import RUNS
from howmanygpus.report.outcomes import read_outcomes
from howmanygpus.report.timelines import PHASE_SERIES, SERIES, pack, summarize_run

READS = ("results",)
COLUMNS = ("run_dir", "node", "device", "bin_s", *SERIES, *PHASE_SERIES)
NUM_BINS = 200


def tabulate(plan: dict, results: Path = Path()) -> pd.DataFrame:
    """One row for the phases and for each device and host of each run with an outcome."""
    rows = [
        {"run_dir": str(RUNS / outcome.path)} | row
        for outcome in read_outcomes(plan, results)
        if outcome.has_run and outcome.record is not None
        for row in describe_run(outcome.folder, outcome.record, NUM_BINS)
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype({"node": int})


def describe_run(folder: Path, record: dict, num_bins: int) -> list[dict]:
    """Return the rows of one run or attempt, without `run_dir`. folder: with its files. record: its run.json."""
    path = folder / "events.jsonl"
    events = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    rows = summarize_run(folder, events, record.get("wall_time_s"), num_bins)
    return [
        row | {column: pack(row[column], column) for column in (*SERIES, *PHASE_SERIES) if column in row}
        for row in rows
    ]
