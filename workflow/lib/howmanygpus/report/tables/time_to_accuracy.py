"""When each run first reached each threshold of the quality metric. Runs that never did have rows too."""

import pandas as pd

from howmanygpus.report.inputs import is_real
from howmanygpus.report.metrics import load_metric
from howmanygpus.report.outcomes import IDENTITY

READS = ("runs", "evaluations")
USES_METRIC = True
IS_MERGED = True
COLUMNS = [*IDENTITY, "metric", "threshold", "reached", "epoch", "time_to_accuracy_s", "wall_time_s"]
CONFIGURATION = [name for name in IDENTITY if name not in ("repeat", "seed")]


def tabulate(plan: dict, runs: pd.DataFrame, evaluations: pd.DataFrame) -> pd.DataFrame:
    """One row per threshold and run. runs, evaluations: the tables of these names."""
    return compute_time_to_accuracy(runs, evaluations, plan["config"]["quality"])


def compute_time_to_accuracy(runs: pd.DataFrame, evaluations: pd.DataFrame, quality: dict) -> pd.DataFrame:
    """One row per threshold and run on real images that completed or diverged.

    time_to_accuracy_s is the training clock at the end of the first epoch whose evaluation reached the threshold; it
    excludes start-up, the first step and evaluation. wall_time_s counts everything since the launcher started.
    """
    better = load_metric(quality["metric"]).BETTER
    own_evaluations = dict(list(evaluations.groupby(list(IDENTITY))))
    rows = []
    judged = runs[runs["status"].isin(["completed", "diverged"]) & is_real(runs)]
    for run in judged[list(IDENTITY)].to_dict("records"):
        own = own_evaluations.get(tuple(run.values()), evaluations.iloc[:0]).sort_values("epoch")
        for threshold in quality["thresholds"]:
            reached = own["quality"] >= threshold if better == "higher" else own["quality"] <= threshold
            row = run | {"metric": quality["metric"], "threshold": threshold, "reached": bool(reached.any())}
            if row["reached"]:
                first = own[reached].iloc[0]
                row |= {"epoch": first["epoch"], "time_to_accuracy_s": first["train_s"], "wall_time_s": first["wall_s"]}
            rows.append(row)
    return pd.DataFrame(rows, columns=COLUMNS).astype({"epoch": "Int64"})


def summarize_time_to_accuracy(table: pd.DataFrame) -> pd.DataFrame:
    """One row per configuration and threshold: num_repeats, num_reached, and median, minimum and maximum of the time.

    A repeat that never reached the threshold counts as infinitely slow: the median is infinite if half or more of the
    repeats failed.
    """
    times = table.assign(time_s=table["time_to_accuracy_s"].where(table["reached"], float("inf")))
    grouped = times.groupby([*CONFIGURATION, "metric", "threshold"], sort=False)
    return grouped.agg(
        num_repeats=("reached", "size"),
        num_reached=("reached", "sum"),
        time_s_median=("time_s", "median"),
        time_s_min=("time_s", "min"),
        time_s_max=("time_s", "max"),
    ).reset_index()
