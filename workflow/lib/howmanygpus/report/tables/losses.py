"""
Training loss of every window in the first epoch of every run, and its difference from runs that do the same work.

All windows of a program that reports no epochs are in its first one, and windows of which it reports no loss are in
none.
`difference` is relative to the median run; `difference_limit` is what rounding can explain, see report.trajectory. It
is empty where rounding explains any difference, because the training is unstable.
"""

from pathlib import Path

import pandas as pd

from howmanygpus.report.columns import IDENTITY
from howmanygpus.report.disturbance import is_disturbed
from howmanygpus.report.outcomes import read_outcomes
from howmanygpus.report.published import AUGMENTATION
from howmanygpus.report.trajectory import add_differences

READS = ("results",)
COLUMNS = (*IDENTITY, "protocol", "disturbed", "last_step", "loss", "difference", "difference_limit")


def tabulate(plan: dict, results: Path = Path()) -> pd.DataFrame:
    """One row per window of the first epoch of each run with an outcome: its last step and its mean loss.

    Control runs are left out, because they train less or on other images.
    """
    rows, trained = [], set()
    for outcome in read_outcomes(plan, results):
        if outcome.control:
            continue
        # Runs with another augmentation do other work than all other runs.
        if outcome.was_trained and outcome.protocol != AUGMENTATION:
            trained.add(tuple(outcome.identity.values()))
        if not outcome.has_run or outcome.record is None:
            continue
        for event in outcome.read_events():
            if event["event"] == "window" and event["epoch"] in (1, None) and event["loss"] is not None:
                last_step = event["first_step"] + event["num_steps"] - 1
                row = {"disturbed": is_disturbed(outcome.record), "last_step": last_step, "loss": event["loss"]}
                rows.append(outcome.identity | {"protocol": outcome.protocol or None} | row)
    losses = pd.DataFrame(rows, columns=list(COLUMNS)).astype({"last_step": int, "loss": float})
    return add_differences(losses, plan, trained)
