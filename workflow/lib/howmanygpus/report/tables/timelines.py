"""
What the devices and hosts of each run did over time, and the phases of the run, downsampled for figures.

Each run has one row for its phases, one for each device and one for each host (`host`, per node). A series is a list of
NUM_BINS values between commas, of equal bins of `bin_s` seconds from the launcher's start to the end of the run; an
empty one has no samples. Utilisation and disk rates are means, memory is the maximum. The phases are the shares of each
bin that the first step, training, evaluation and a program's checkpoints take; the rest is start-up, logging and
waiting. `run_dir` names the run as in the table `runs`. Runs that were tried and have no outcome are not listed.
"""

from pathlib import Path

import pandas as pd

from howmanygpus.paths import RUNS
from howmanygpus.report.outcomes import read_outcomes
from howmanygpus.report.tables.helpers.summaries import summarize_samples
from howmanygpus.report.timelines import PHASE_SERIES, SERIES

READS = ("results",)
COLUMNS = ("run_dir", "node", "device", "bin_s", *SERIES, *PHASE_SERIES)


def tabulate(plan: dict, results: Path = Path()) -> pd.DataFrame:
    """One row for the phases and for each device and host of each run with an outcome."""
    rows = [
        {"run_dir": str(RUNS / outcome.path)} | row
        for outcome in read_outcomes(plan, results)
        if outcome.has_run and outcome.record is not None
        for row in summarize_samples(outcome, results)["timeline"]
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype({"node": int})
