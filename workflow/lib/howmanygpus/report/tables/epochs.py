"""
Every epoch of every run: seconds of training and of validation apart, the rate, the loss and the quality.

`train_s` are the seconds of the epoch's steps, warm-up included; the first step of a run is in `first_step_s` instead.
`images_per_s` is the rate of the measured windows, and empty for an epoch without any. `loss` is the mean training loss
of the steps. `eval_s` and `quality` are empty for an epoch without an evaluation. `wall_s` is the wall clock at the
end of the epoch. A user's program that reports no epochs has no rows.
"""

from pathlib import Path
from typing import Any

import pandas as pd

from howmanygpus.report.columns import IDENTITY
from howmanygpus.report.outcomes import Outcome, read_outcomes

READS = ("results", "evaluations")
COLUMNS = (
    *(*IDENTITY, "protocol", "control", "epoch", "num_steps", "images"),
    *("first_step_s", "train_s", "data_wait_s", "images_per_s", "loss", "eval_s", "metric", "quality", "wall_s"),
)


def tabulate(plan: dict, evaluations: pd.DataFrame, results: Path = Path()) -> pd.DataFrame:
    """One row per epoch of the runs that completed or diverged.

    evaluations: the table of that name; results: the folder that holds `results/`.
    """
    names = zip(*(evaluations[key] for key in (*IDENTITY, "epoch")), strict=True)
    found = zip(evaluations["metric"], evaluations["quality"], strict=True)
    qualities = dict(zip(names, found, strict=True))
    rows = []
    for outcome in read_outcomes(plan, results):
        if outcome.was_trained:
            for epoch, events in group_by_epoch(outcome.read_events()).items():
                metric, quality = qualities.get((*outcome.identity.values(), epoch), (None, None))
                named = {"protocol": outcome.protocol or None, "control": outcome.control or None, "epoch": epoch}
                own = describe_epoch(events, outcome)
                rows.append(outcome.identity | named | own | {"metric": metric, "quality": quality})
    return pd.DataFrame(rows, columns=list(COLUMNS))


def group_by_epoch(events: list[dict]) -> dict[int, list[dict]]:
    """Return the windows and evaluations of each epoch, in their order."""
    groups: dict[int, list[dict]] = {}
    for event in events:
        if event["event"] in ("window", "evaluation") and event["epoch"] is not None:
            groups.setdefault(event["epoch"], []).append(event)
    return groups


def describe_epoch(events: list[dict], outcome: Outcome) -> dict[str, Any]:
    """Return the numbers of one epoch. events: its windows and evaluations."""
    windows = [event for event in events if event["event"] == "window"]
    moments = [event for event in events if event["event"] == "evaluation"]
    first, trained = split(windows, "compile")
    measured, _ = split(windows, "train")
    losses = [(window["num_steps"], window["loss"]) for window in windows if window["loss"] is not None]
    measured_s = sum(window["elapsed_s"] for window in measured)
    return {
        "num_steps": sum(window["num_steps"] for window in windows),
        "images": count_images(windows, outcome),
        "first_step_s": sum_known(window["elapsed_s"] for window in first),
        "train_s": sum_known(window["elapsed_s"] for window in trained),
        "data_wait_s": sum_known(window["data_wait_s"] for window in trained),
        "images_per_s": count_images(measured, outcome) / measured_s if measured_s else None,
        "loss": sum(steps * loss for steps, loss in losses) / sum(steps for steps, _ in losses) if losses else None,
        "eval_s": sum_known(moment.get("elapsed_s") for moment in moments),
        "wall_s": max(event["wall_s"] for event in events),
    }


def split(windows: list[dict], phase: str) -> tuple[list[dict], list[dict]]:
    """Return the windows of a phase, and all others."""
    own = [window for window in windows if window["phase"] == phase]
    return own, [window for window in windows if window["phase"] != phase]


def count_images(windows: list[dict], outcome: Outcome) -> int:
    """Return the number of training images of some windows. A user's program counts its samples itself."""
    batch = outcome.identity["global_batch_size"]
    return sum(window.get("samples", window["num_steps"] * batch) for window in windows)


def sum_known(values: Any) -> float | None:
    """Return the sum of the values that are not None; None without any."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None
