"""
Benefit and cost of each batch size: its rate, and the epochs and images that it takes to the target.

The knee is the smallest global batch whose median rate is within 5 % of the best median of the same framework on the
same devices. The largest batch is no knee, because larger ones were not measured. Repeats scatter, so there is a range:
knee_lowest is the smallest batch whose fastest repeat is within 5 % of the slowest repeat of the best batch, and
knee_highest the smallest whose slowest repeat is within 5 % of the best batch's fastest. The target is the hardest
threshold that some configuration reached in all its repeats, else in one. `noise_s_per_train_s` is the duration of the
gradient-noise measurements, which the clock of the training leaves out. `max_limit` is set for the batch in place of
`per_device_batch_size: max`, and says what prevents a larger one.
"""

import numpy as np
import pandas as pd

from howmanygpus.report.columns import BATCH, IDENTITY, SAME_PLACE, SEARCHED, list_columns
from howmanygpus.report.outcomes import has_failed
from howmanygpus.report.published import is_fair
from howmanygpus.report.thresholds import choose_easiest_threshold, choose_hardest_threshold, summarize_time_to_accuracy

READS = ("runs", "time_to_accuracy", "gradient_noise")
IS_MERGED = True
SHOWN_IF_VARIED = "per_device_batch_size"
CATEGORY = "Batch size"
NO_LIMIT = ("open", "failed", "refused")
"""Limits of searches that gave no number."""
SIZES = list_columns(BATCH)
TARGETS = {"epochs_to_target": "epoch", "images_to_target": "images_seen", "train_s_to_target": "time_to_accuracy_s"}
"""Quantities that are counted to the target, and their columns in the table time_to_accuracy."""
ENDS = ("median", "min", "max")
COLUMNS = [
    *(*SAME_PLACE, *SIZES),
    *("images_per_s_median", "images_per_s_min", "images_per_s_max"),
    *("num_planned", "num_repeats", "num_failed", "num_out_of_memory", "num_disturbed"),
    *("rate_of_best", "is_knee", "knee_lowest", "knee_highest", "is_largest_that_fits", "max_limit"),
    *("metric", "target", "num_judged", "num_reached"),
    *(f"{name}_{end}" for name in TARGETS for end in ENDS),
    *("noise_scale", "num_noise_measurements", "noise_s_per_train_s"),
]
KNEE_FRACTION = 0.95
"""Fraction of the best rate that the knee reaches."""


def tabulate(
    plan: dict, runs: pd.DataFrame, time_to_accuracy: pd.DataFrame, gradient_noise: pd.DataFrame
) -> pd.DataFrame:
    """One row per configuration. The arguments are the tables of these names."""
    table = compute_batch_sizes(runs[is_fair(runs)], time_to_accuracy, gradient_noise)
    return mark_largest(table, plan.get("largest", []))


def compute_batch_sizes(
    runs: pd.DataFrame, time_to_accuracy: pd.DataFrame, gradient_noise: pd.DataFrame
) -> pd.DataFrame:
    """Return one row per configuration, from the tables of these names.

    Batches that never reached the target have rows.

    Values to the target are medians over the repeats. They are empty if half or more of the repeats never reached it.
    """
    table = _count_runs(runs)
    table = pd.concat([_mark_curve(rows) for _, rows in table.groupby(SAME_PLACE, sort=False)], ignore_index=True)
    noise = average_noise(gradient_noise), compute_noise_share(gradient_noise, runs)
    for more in (_summarize_targets(time_to_accuracy), *noise):
        table = table.merge(more, on=[*SAME_PLACE, *SIZES], how="left")
    counted = dict.fromkeys(("num_judged", "num_reached", "num_noise_measurements"), 0)
    return table.fillna(counted).astype(dict.fromkeys(counted, int)).assign(max_limit=None)[COLUMNS]


def mark_largest(table: pd.DataFrame, largest: list[dict]) -> pd.DataFrame:
    """Mark the batches that `max` stands for. largest: as in the plan, see study.largest.resolving.

    Under strong scaling they are the batches of the smallest device count.
    """
    numbers = {tuple(each[name] for name in SEARCHED): each for each in largest if each["limit"] not in NO_LIMIT}
    limits = []
    for _, row in table.iterrows():
        found = numbers.get(tuple(row[name] for name in SEARCHED), {"number": None})
        limits.append(found["limit"] if found["number"] == row["per_device_batch_size"] else None)
    table = table.assign(max_limit=pd.Series(limits, index=table.index, dtype=object))
    by_memory = table["max_limit"].isin(("memory", "host_memory"))
    return table.assign(is_largest_that_fits=table["is_largest_that_fits"] | by_memory)


def _count_runs(runs: pd.DataFrame) -> pd.DataFrame:
    runs = runs.assign(
        failed=has_failed(runs["status"]),
        disturbed=runs["disturbed"].eq(True),
        out_of_memory=runs["status"] == "out_of_memory",
    )
    configurations = runs.groupby([*SAME_PLACE, *SIZES], sort=False)
    table = configurations.agg(
        **{f"images_per_s_{end}": ("images_per_s", end) for end in ENDS},
        num_planned=("status", "size"),
        num_repeats=("images_per_s", "count"),
        num_failed=("failed", "sum"),
        num_out_of_memory=("out_of_memory", "sum"),
        num_disturbed=("disturbed", "sum"),
    )
    return table.reset_index().astype({f"images_per_s_{end}": float for end in ENDS})


def _mark_curve(rows: pd.DataFrame) -> pd.DataFrame:
    """Add the knee and the largest batch that fits to the batch sizes of one framework on one number of devices.

    Its range is empty if there are fewer than two sizes. A batch with a failed repeat is never the knee.
    """
    rows = rows.sort_values("global_batch_size", kind="stable").assign(knee_lowest=np.nan, knee_highest=np.nan)
    sound = rows[rows["images_per_s_median"].notna() & (rows["num_failed"] == 0)]
    median, lowest, highest = (sound[f"images_per_s_{end}"] for end in ENDS)
    rows["rate_of_best"] = rows["images_per_s_median"] / median.max()
    rows["is_knee"] = False
    if len(sound) > 1:
        near = {
            "is_knee": median >= KNEE_FRACTION * median.max(),
            "knee_lowest": highest >= KNEE_FRACTION * lowest.max(),
            "knee_highest": lowest >= KNEE_FRACTION * highest.max(),
        }
        first = {name: sound.loc[is_near, "global_batch_size"].min() for name, is_near in near.items()}
        sizes = rows["global_batch_size"]
        rows["is_knee"] = (sizes == first["is_knee"]) & (sizes < sizes.max())
        rows["knee_lowest"], rows["knee_highest"] = first["knee_lowest"], first["knee_highest"]
    exhausted = rows.loc[rows["num_out_of_memory"] > 0, "per_device_batch_size"].min()
    fitting = rows.loc[(rows["num_repeats"] > 0) & (rows["num_out_of_memory"] == 0), "per_device_batch_size"]
    largest = fitting[fitting < exhausted].max()
    return rows.assign(is_largest_that_fits=rows["per_device_batch_size"] == largest)


def _summarize_targets(time_to_accuracy: pd.DataFrame) -> pd.DataFrame:
    """Return the epochs and images that each configuration needs, and how many repeats reached the target."""
    own = [f"{name}_{end}" for name in TARGETS for end in ENDS]
    columns = [*SAME_PLACE, *SIZES, "metric", "target", "num_judged", "num_reached", *own]
    if time_to_accuracy.empty:
        return pd.DataFrame(columns=columns)
    times = time_to_accuracy.astype(dict.fromkeys(TARGETS.values(), float))
    target = choose_target(times)
    times = times[times["threshold"] == target]
    found = summarize_time_to_accuracy(times).rename(columns={"num_repeats": "num_judged"}).assign(target=target)
    for name, clock in TARGETS.items():
        summary = summarize_time_to_accuracy(times, clock).replace(np.inf, np.nan)
        found = found.assign(**{f"{name}_{end}": summary[f"time_s_{end}"] for end in ENDS})
    return found[columns]


def choose_target(time_to_accuracy: pd.DataFrame) -> float:
    """Return the hardest threshold that a configuration reached in all repeats, else in any; else the easiest."""
    summary = summarize_time_to_accuracy(time_to_accuracy)
    for reached in (summary["num_reached"] == summary["num_repeats"], summary["num_reached"] > 0):
        if reached.any():
            return choose_hardest_threshold(summary[reached])
    return choose_easiest_threshold(summary)


def average_noise(gradient_noise: pd.DataFrame) -> pd.DataFrame:
    """Return the noise scale over all measurements of a configuration.

    Numerator and denominator are averaged separately, because each is unbiased and their ratio is not (McCandlish et
    al. 2018, arXiv:1812.06162, appendix A.1). It is empty if the mean of the denominators is not positive.
    """
    if gradient_noise.empty:
        return pd.DataFrame(columns=[*SAME_PLACE, *SIZES, "noise_scale", "num_noise_measurements"])
    configurations = gradient_noise.groupby([*SAME_PLACE, *SIZES], sort=False)
    table = configurations.agg(
        signal=("gradient_squared", "mean"), noise=("variance_trace", "mean"), num_noise_measurements=("step", "size")
    )
    table["noise_scale"] = (table["noise"] / table["signal"]).where((table["signal"] > 0) & (table["noise"] > 0))
    return table.drop(columns=["signal", "noise"]).reset_index()


def compute_noise_share(gradient_noise: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame:
    """Return the seconds of noise measurements per second of training, over a configuration's runs that measured."""
    if gradient_noise.empty:
        return pd.DataFrame(columns=[*SAME_PLACE, *SIZES, "noise_s_per_train_s"])
    measured = gradient_noise.groupby(IDENTITY, as_index=False, sort=False)["elapsed_s"].sum(min_count=1)
    both = measured.merge(runs[[*IDENTITY, "train_s"]], on=IDENTITY).astype({"train_s": float})
    sums = both.groupby([*SAME_PLACE, *SIZES], sort=False)[["elapsed_s", "train_s"]].sum(min_count=1)
    return (sums["elapsed_s"] / sums["train_s"]).rename("noise_s_per_train_s").reset_index()
