"""What a recommended configuration makes of its devices and of its wall time, as facts."""

from typing import Any

import numpy as np
import pandas as pd

from howmanygpus.report.columns import IDENTITY
from howmanygpus.report.telemetry import ACTIVITY

Facts = dict[str, Any]
NAMED_CHECKPOINTS = 0.1
"""Part of the wall time from which on checkpoints are named."""


def list_uses(decisions: list[Facts], runs: pd.DataFrame, utilisation: pd.DataFrame) -> list[Facts]:
    """Return the use that each recommendation makes of its devices, as medians over its repeats.

    decisions: those of answer.facts. runs, utilisation: the tables of these names. mfu, activity and
    flops_per_device_s are None if they are not known. missing: why the driver did not give the activity.
    """
    return [
        {"of": decision["of"]} | _describe_use(decision["recommended"], runs, utilisation)
        for decision in decisions
        if decision["recommended"]
    ]


def _describe_use(chosen: Facts, runs: pd.DataFrame, utilisation: pd.DataFrame) -> Facts:
    own = runs[runs["run_dir"].isin(chosen["run_dirs"])]
    used = utilisation.merge(own[[*IDENTITY, "images_per_s", "device_model"]], on=IDENTITY)
    checkpoints = _take_median(own["checkpoint_s"].astype(float) / own["wall_time_s"].astype(float))
    activity = {column: _take_median(used[column]) for column in ACTIVITY}
    return {
        "precision": chosen["precision"],
        "device_models": sorted(used["device_model"].dropna().unique()),
        "mfu": _take_median(used["mfu"]),
        "flops_from": _take_first(used["flops_from"]),
        "flops_per_device_s": _take_median(used["flops_per_image"] * used["images_per_s"] / chosen["num_gpus"]),
        "activity": activity if None not in activity.values() else None,
        "missing": _take_first(used["activity_missing"]),
        "checkpoint_frac": checkpoints if checkpoints is not None and checkpoints >= NAMED_CHECKPOINTS else None,
    }


def _take_median(values: pd.Series) -> float | None:
    known = values.dropna().astype(float)
    return float(np.median(known)) if len(known) else None


def _take_first(values: pd.Series) -> str | None:
    known = values.dropna()
    return str(known.iloc[0]) if len(known) else None
