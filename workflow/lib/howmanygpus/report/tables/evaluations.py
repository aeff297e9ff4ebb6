"""
Quality of every run after each evaluated epoch, with the training clock and the wall clock at that moment.

quality_of_guess is the quality of a predictor that knows only how frequent each class is. num_evaluated is the number
of test images, which a program of a user does not report. The area under the ROC curve
is added if there are two classes, whatever the metric is.
"""

from pathlib import Path

import pandas as pd

from howmanygpus.report.columns import IDENTITY
from howmanygpus.report.metrics import load_metric, roc_auc
from howmanygpus.report.outcomes import Outcome, read_outcomes
from howmanygpus.report.predictions import read_predictions
from howmanygpus.report.words import word

READS = ("results", "datasets")
USES_METRIC = True
QUALITY = ("metric", "quality", "quality_of_guess", "num_evaluated", "roc_auc")
COLUMNS = (*IDENTITY, "protocol", "epoch", "images_seen", "train_s", "wall_s", *QUALITY)


def tabulate(plan: dict, datasets: pd.DataFrame, results: Path = Path()) -> pd.DataFrame:
    """One row per evaluation of the runs that completed or diverged, without control runs: only a program's have any.

    datasets: the table of that name; results: the folder that holds `results/`.
    """
    metric = plan["config"]["quality"]["metric"]
    known = datasets.set_index("input")[["quality_of_guess", "num_test"]].rename(columns={"num_test": "num_evaluated"})
    guesses = known.to_dict("index")
    outcomes = [outcome for outcome in read_outcomes(plan, results) if outcome.was_trained and not outcome.control]
    rows = [row for outcome in outcomes for row in evaluate(outcome, metric, guesses)]
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype({"num_evaluated": "Int64"})


def evaluate(outcome: Outcome, metric: str, guesses: dict[str, dict]) -> list[dict]:
    """Return the rows of one run. guesses: quality_of_guess and num_evaluated, by input."""
    moments = [event for event in outcome.read_events() if event["event"] == "evaluation"]
    return [
        outcome.identity
        | {"protocol": outcome.protocol or None}
        | {"epoch": moment["epoch"], "train_s": moment["train_s"], "wall_s": moment["wall_s"]}
        | {"images_seen": moment["step"] * outcome.identity["global_batch_size"]}
        | {"metric": metric, "quality": quality}
        | guesses.get(outcome.identity["input"], {})
        | {"roc_auc": area}
        for moment, (quality, area) in zip(moments, judge(outcome, moments, metric), strict=True)
    ]


def judge(outcome: Outcome, moments: list[dict], metric: str) -> list[tuple[float | None, float | None]]:
    """Return the metric and the area under the ROC curve of each evaluation; no area unless there are two classes.

    The metric is as a user's program has reported it, or computed from the predictions.
    """
    if (outcome.record or {})["spec"].get("program"):
        return [(read_reported(moment["metric"], metric), None) for moment in moments]
    compute = load_metric(metric).compute
    predictions = read_predictions(outcome.folder / "predictions.npz")
    return [(compute(each), roc_auc.compute(each) if each.rank is not None else None) for each in predictions]


def read_reported(reported: dict[str, float], metric: str) -> float | None:
    """Return the value of a metric that a program reported; None if it has not, or if the metric cannot have it."""
    value, (low, high) = reported.get(metric), getattr(load_metric(metric), "RANGE", (None, None))
    is_possible = value is not None and (low is None or low <= value) and (high is None or value <= high)
    return value if is_possible else None


def explain_missing(events: list[dict], metric: str) -> str:
    """Say why a program's run has no quality although the program has reported some; empty if it has reported none."""
    reported = {
        name: value for event in events if event["event"] == "evaluation" for name, value in event["metric"].items()
    }
    if metric in reported:
        return word("tables", "impossible_quality", metric=metric, value=reported[metric])
    return word("tables", "other_quality", metric=metric, reported=sorted(reported)) if reported else ""
