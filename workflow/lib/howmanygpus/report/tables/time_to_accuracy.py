"""
The time at which each run first reached each threshold of the quality metric. Runs that never did have rows too.

There are three clocks. time_to_accuracy_s, by which answer and figures rank, counts training alone: no start-up, no
first step with its compilation, no evaluation. time_with_start_s adds start-up and first step. wall_time_s counts
everything since the launcher started, evaluations included.

missed_time_s and missed_images are the training seconds and images at the evaluation before, the last one that missed
the threshold; zero if the first one met it. The threshold was crossed between the two.

`held` says whether the last evaluation of a run that reached the threshold still meets it.

cost_to_accuracy is the bill of the run up to the evaluation that reached the threshold, including earlier failed
attempts; `currency` is its unit. Both are empty without a price.
"""

import operator

import pandas as pd

from howmanygpus.report.columns import IDENTITY
from howmanygpus.report.metrics import load_metric
from howmanygpus.report.outcomes import UNDECIDED
from howmanygpus.report.published import is_fair
from howmanygpus.report.rows import is_real

READS = ("runs", "evaluations")
USES_METRIC = True
IS_MERGED = True
CLOCKS = ("time_to_accuracy_s", "time_with_start_s", "wall_time_s")
COLUMNS = [
    *IDENTITY,
    "status",
    "disturbed",
    "metric",
    "better",
    "quality_of_guess",
    "threshold",
    "reached",
    "held",
    "epoch",
    "images_seen",
    *CLOCKS,
    *("missed_time_s", "missed_images"),
    *("cost_to_accuracy", "currency"),
]


def tabulate(plan: dict, runs: pd.DataFrame, evaluations: pd.DataFrame) -> pd.DataFrame:
    """One row per threshold and run. runs, evaluations: the tables of these names."""
    return compute_time_to_accuracy(runs[is_fair(runs)], evaluations, plan["config"]["quality"])


def compute_time_to_accuracy(runs: pd.DataFrame, evaluations: pd.DataFrame, quality: dict) -> pd.DataFrame:
    """One row per threshold and run on real images, without runs that say nothing about their configuration.

    A run that was stopped by its time limit, crashed or ran out of memory has not reached any threshold. A run that
    diverged has reached the thresholds that it reached before.
    """
    better = load_metric(quality["metric"]).BETTER
    own_evaluations: dict[tuple, list[dict]] = {}
    for evaluation in evaluations.sort_values("epoch").to_dict("records"):
        own_evaluations.setdefault(tuple(evaluation[key] for key in IDENTITY), []).append(evaluation)
    is_met = operator.ge if better == "higher" else operator.le
    rows = []
    judged = runs[~runs["status"].isin(UNDECIDED) & is_real(runs)]
    for run in judged.to_dict("records"):
        identity = {key: run[key] for key in IDENTITY}
        own = own_evaluations.get(tuple(identity.values()), [])
        common = identity | {key: run[key] for key in ("status", "disturbed")}
        common |= {"metric": quality["metric"], "better": better, "quality_of_guess": run["quality_of_guess"]}
        for threshold in quality["thresholds"]:
            reached = [is_met(evaluation["quality"], threshold) for evaluation in own]
            row = common | {"threshold": threshold, "reached": any(reached)}
            if row["reached"]:
                first = reached.index(True)
                row |= {"held": reached[-1], **read_clocks(own[first], run)}
                missed = own[first - 1] if first else {"train_s": 0.0, "images_seen": 0}
                row |= {"missed_time_s": missed["train_s"], "missed_images": missed["images_seen"]}
            rows.append(row)
    return pd.DataFrame(rows, columns=COLUMNS).astype(
        {"epoch": "Int64", "images_seen": "Int64", "missed_images": "Int64"}
    )


def read_clocks(evaluation: dict, run: dict) -> dict:
    """Return epoch, images and clocks at an evaluation. run: its run's row, with seconds of start-up and first step."""
    started_s = run["init_s"] + run["compile_s"]
    return {
        "epoch": evaluation["epoch"],
        "images_seen": evaluation["images_seen"],
        "time_to_accuracy_s": evaluation["train_s"],
        "time_with_start_s": started_s + evaluation["train_s"],
        "wall_time_s": evaluation["wall_s"],
        **price_until(evaluation, run),
    }


def price_until(evaluation: dict, run: dict) -> dict:
    """Return the bill of a run up to the end of an evaluation, or nothing if it has no price.

    Hours are billed at one rate, so the cost of the seconds after the evaluation is subtracted from the whole cost.
    """
    if pd.isna(run["cost"]) or not run["device_hours"]:
        return {}
    billed_s = 3600 * run["device_hours"] / run["num_gpus"]
    saved = (run["wall_time_s"] - evaluation["wall_s"]) / billed_s
    return {"cost_to_accuracy": run["cost"] * (1 - saved), "currency": run["currency"]}
