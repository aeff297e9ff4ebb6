"""Independent runs on one device each, set beside the runs on all devices that they rival."""

import pandas as pd

SAME = ["framework", "input", "precision", "device", "num_gpus", "per_device_batch_size"]
"""Columns that independent runs share with the run on several devices that they rival."""


def list_independent(runs: pd.DataFrame) -> set[str]:
    """Return the variants that train several networks at once, which no ranking includes; none if all variants do.

    runs: the table of that name.
    """
    is_independent = runs["independent"].eq(True)
    return set() if is_independent.all() else set(runs.loc[is_independent, "variant"])


def compare_independent(scaling: pd.DataFrame, variants: set[str]) -> list[str]:
    """Compare the fastest configuration on several devices with as many independent runs; empty without both.

    scaling: rows with a rate. variants: those of independent runs.
    """
    is_independent = scaling["variant"].isin(variants)
    sound = scaling[~is_independent & (scaling["num_failed"] == 0)]
    if sound.empty or not is_independent.any():
        return []
    best = sound.loc[sound["images_per_s_median"].idxmax()]
    rivals = scaling[is_independent & (scaling[SAME] == best[SAME]).all(axis=1)]
    if rivals.empty or best["num_gpus"] == 1:
        return []
    rival = rivals.loc[rivals["images_per_s_median"].idxmax()]
    slowest, fastest = rival["device_images_per_s_min"], rival["device_images_per_s_max"]
    return [
        f"{best['num_gpus']} independent runs of {best['framework']} at once, on one device each, have "
        f"{rival['images_per_s_median'] / best['images_per_s_median']:.2f} times the rate of one run on all; the "
        f"slowest device has {slowest:,.0f} images/s and the fastest {fastest:,.0f}."
    ]
