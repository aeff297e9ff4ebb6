"""Training loss of every window in the first epoch of every run."""

from pathlib import Path

import pandas as pd

from howmanygpus.report.outcomes import IDENTITY, read_outcomes

READS = ("results",)
COLUMNS = (*IDENTITY, "last_step", "loss")


def tabulate(plan: dict, results: Path = Path()) -> pd.DataFrame:
    """One row per window of the first epoch of each run with an outcome: its last step and its mean loss."""
    rows = []
    for outcome in read_outcomes(plan, results):
        for event in outcome.read_events() if outcome.has_run else ():
            if event["event"] == "window" and event["epoch"] == 1:
                last_step = event["first_step"] + event["num_steps"] - 1
                rows.append(outcome.identity | {"last_step": last_step, "loss": event["loss"]})
    return pd.DataFrame(rows, columns=list(COLUMNS))
