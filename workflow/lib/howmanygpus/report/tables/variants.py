"""Throughput and quality of each variant of a study, compared with the first variant."""

import numpy as np
import pandas as pd

READS = ("runs",)
IS_MERGED = True
CELL = ["study", "dataset", "model", "framework", "input", "precision", "device"]
CELL += ["num_nodes", "num_gpus", "per_device_batch_size"]
COLUMNS = [
    *CELL,
    *("variant", "base_variant", "base_images_per_s", "images_per_s", "throughput_ratio"),
    *("quality_metric", "base_quality", "quality", "quality_difference", "quality_tolerance", "same_quality"),
]
STANDARD_ERRORS = 3.0
"""Tolerance of a difference of means. Chance alone exceeds it in 1 of 370 comparisons, so false alarms are rare."""


def tabulate(plan: dict, runs: pd.DataFrame) -> pd.DataFrame:
    """One row per configuration and variant. runs: the table of that name."""
    return compute_variants(runs, list(plan["config"]["variants"]))


def compute_variants(runs: pd.DataFrame, variants: list[str]) -> pd.DataFrame:
    """One row per configuration and variant. The first variant is the base and has no rows.

    runs: the table of that name; variants: names in the order of the config. Rates are medians over the repeats;
    quality is the mean over the repeats at the end of training. same_quality says whether the means differ by at most
    STANDARD_ERRORS standard errors. It is empty if no configuration has repeats to estimate the spread from.
    """
    completed = runs[runs["status"] == "completed"]
    spread = pool_spread_of_seeds(completed)
    base, *others = variants
    cells = completed.groupby(["variant", *CELL], sort=False).agg(
        rate=("images_per_s", "median"), quality=("quality_last", "mean"), repeats=("quality_last", "count")
    )
    rows = []
    for variant, *cell in cells.index:
        if variant in others and (base, *cell) in cells.index:
            one, other = cells.loc[(base, *cell)], cells.loc[(variant, *cell)]
            difference = other["quality"] - one["quality"]
            tolerance = np.nan
            if one["repeats"] and other["repeats"]:
                tolerance = STANDARD_ERRORS * spread * np.sqrt(1 / one["repeats"] + 1 / other["repeats"])
            same = None if np.isnan(tolerance) else "yes" if abs(difference) <= tolerance else "no"
            metric = completed["quality_metric"].dropna()
            values = [variant, base, one["rate"], other["rate"], other["rate"] / one["rate"]]
            values += [metric.iloc[0] if len(metric) else None, one["quality"], other["quality"]]
            rows.append([*cell, *values, difference, tolerance, same])
    return pd.DataFrame(rows, columns=COLUMNS)


def pool_spread_of_seeds(completed: pd.DataFrame) -> float:
    """Standard deviation of the final quality over repeats, pooled over all configurations. NaN without repeats."""
    groups = completed.groupby(["variant", *CELL])["quality_last"]
    freedom = (groups.count() - 1).clip(lower=0)
    if not freedom.sum():
        return np.nan
    return float(np.sqrt((groups.var().fillna(0) * freedom).sum() / freedom.sum()))
