"""Throughput of each configuration over its repeats, and its speed-up along each scaling curve."""

import pandas as pd

READS = ("runs",)
IS_MERGED = True
CURVE = ["study", "dataset", "model", "framework", "variant", "input", "precision", "device"]
COLUMNS = [
    *CURVE,
    *("scaling_mode", "fixed_batch_size", "num_gpus", "per_device_batch_size", "global_batch_size"),
    *("images_per_s_median", "images_per_s_min", "images_per_s_max", "num_repeats"),
    *("baseline_num_gpus", "speedup", "scaling_efficiency"),
]
FIXED = {"weak": "per_device_batch_size", "strong": "global_batch_size"}
"""The batch size that each scaling mode keeps constant along a curve."""
MODES = ("weak", "strong")
"""Scaling modes in the order in which tables and figures show them."""


def name_curve(scaling_mode: str, fixed_batch_size: int) -> str:
    """Title of a curve, such as "weak scaling, 64 images per device"."""
    scope = {"weak": "per device", "strong": "over all devices"}[scaling_mode]
    return f"{scaling_mode} scaling, {fixed_batch_size} images {scope}"


def tabulate(plan: dict, runs: pd.DataFrame) -> pd.DataFrame:
    """One row per configuration and scaling mode. runs: the table of that name."""
    return compute_scaling(runs, plan["curves"])


def compute_scaling(runs: pd.DataFrame, curves: dict[str, list[int]]) -> pd.DataFrame:
    """One row per configuration and scaling mode.

    runs: the table of that name; curves: the batch sizes that each mode keeps constant. Speed-up compares the median
    with that of the baseline, the smallest planned device count of the curve. It is empty if no run completed there.
    """
    frames = []
    for mode in MODES:
        members = runs[runs[FIXED[mode]].isin(curves.get(mode, []))].assign(scaling_mode=mode)
        members["fixed_batch_size"] = members[FIXED[mode]]
        frames.append(members.sort_values("fixed_batch_size", kind="stable"))
    configurations = COLUMNS[: COLUMNS.index("images_per_s_median")]
    rates = pd.concat(frames).groupby(configurations, sort=False)["images_per_s"]
    table = rates.agg(
        images_per_s_median="median", images_per_s_min="min", images_per_s_max="max", num_repeats="count"
    ).reset_index()
    curve = table.groupby([*CURVE, "scaling_mode", "fixed_batch_size"])
    table["baseline_num_gpus"] = curve["num_gpus"].transform("min")
    baseline = table["images_per_s_median"].where(table["num_gpus"] == table["baseline_num_gpus"])
    baseline = baseline.groupby(curve.ngroup()).transform("first")
    table["speedup"] = table["images_per_s_median"] / baseline
    table["scaling_efficiency"] = table["speedup"] / (table["num_gpus"] / table["baseline_num_gpus"])
    return table[COLUMNS]
