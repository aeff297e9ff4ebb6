"""
What the first device of each traced run did in each part of the traced steps, for the figure of traces.

The window has equal parts, which begin at `time_s` in step `step`. `busy_frac` is how much of a part a kernel ran, or
with CPU devices an operator, and `input_wait_frac` how much of it the devices waited for a batch.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from howmanygpus.report.columns import IDENTITY
from howmanygpus.report.outcomes import Outcome
from howmanygpus.report.tables.traces import FOLDER, list_traced
from howmanygpus.report.traces.activity import TraceError
from howmanygpus.report.traces.gaps import BINS_PER_STEP, split_into_bins
from howmanygpus.report.traces.reading import read_window

READS = ("results",)
NEEDS = "trace"
COLUMNS = (*IDENTITY, "time_s", "step", "busy_frac", "input_wait_frac")


def tabulate(plan: dict, results: Path = Path()) -> pd.DataFrame:
    """One row per part of the window of each run with a trace. results: the folder that holds `results/`."""
    rows = [row for outcome in list_traced(plan, results) for row in describe_parts(outcome)]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def describe_parts(outcome: Outcome) -> list[dict]:
    record = outcome.record or {}
    if record["trace"]["problem"] is not None:
        return []
    try:
        window = read_window(outcome.folder / FOLDER, record["trace"]["file"], record["spec"]["device_kind"])
    except TraceError:
        return []  # the table `traces` says why
    num_bins = BINS_PER_STEP * len(window.ends_s)
    times = np.arange(num_bins) * window.window_s / num_bins
    middles = times + 0.5 * window.window_s / num_bins
    parts = {
        "time_s": times,
        "step": 1 + np.searchsorted(window.ends_s, middles),
        "busy_frac": split_into_bins(window.devices[0].work, window.window_s, num_bins),
        "input_wait_frac": split_into_bins(window.waits, window.window_s, num_bins),
    }
    return [outcome.identity | part for part in pd.DataFrame(parts).to_dict("records")]
