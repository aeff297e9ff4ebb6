"""Times to thresholds of the quality metric over the repeats of a configuration, and which threshold counts."""

import pandas as pd

from howmanygpus.report.columns import CONFIGURATION


def summarize_time_to_accuracy(table: pd.DataFrame, clock: str = "time_to_accuracy_s") -> pd.DataFrame:
    """One row per configuration and threshold: num_repeats, num_reached, num_disturbed, median and range of a clock.

    clock: a clock of the table time_to_accuracy, cost_to_accuracy, or another column that counts, as floats. A repeat
    that never reached the threshold counts as infinite: the median is infinite if half or more of the repeats never
    reached it.
    """
    # A study without thresholds has a table without rows, whose columns are not read as numbers.
    times = table.assign(
        time_s=table[clock].astype(float).where(table["reached"].astype(bool), float("inf")),
        disturbed=table["disturbed"].eq(True),
    )
    grouped = times.groupby([*CONFIGURATION, "metric", "better", "threshold"], sort=False)
    return grouped.agg(
        quality_of_guess=("quality_of_guess", "first"),
        num_repeats=("reached", "size"),
        num_reached=("reached", "sum"),
        num_disturbed=("disturbed", "sum"),
        time_s_median=("time_s", "median"),
        time_s_min=("time_s", "min"),
        time_s_max=("time_s", "max"),
    ).reset_index()


def choose_hardest_threshold(summary: pd.DataFrame) -> float:
    """Return the hardest threshold of a summary: the highest, or the lowest if lower values are better."""
    is_higher_better = (summary["better"] == "higher").all()
    return float(summary["threshold"].max() if is_higher_better else summary["threshold"].min())


def choose_easiest_threshold(summary: pd.DataFrame) -> float:
    """Return the easiest threshold of a summary."""
    is_higher_better = (summary["better"] == "higher").all()
    return float(summary["threshold"].min() if is_higher_better else summary["threshold"].max())
