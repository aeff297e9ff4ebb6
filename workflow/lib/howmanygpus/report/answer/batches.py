"""Which batch size, as facts: the knee of each curve, what a doubling of the batch buys and costs, and the noise."""

from typing import Any

import pandas as pd

from howmanygpus.report.answer.names import add_series, name_place
from howmanygpus.report.columns import SAME_PLACE, SEARCHED
from howmanygpus.report.metrics import name_metric
from howmanygpus.report.rows import choose_inputs

Facts = dict[str, Any]


def describe_batches(batch_sizes: pd.DataFrame, batch_search: pd.DataFrame | None) -> Facts:
    """Return the facts of a study's batch sizes by its tables of these names. batch_search: None without a search."""
    table = add_series(choose_inputs(batch_sizes))
    known = _select_knees(table).sort_values("images_per_s_median", ascending=False, kind="stable")
    return {
        "knees": [_describe_knee(row) for _, row in known.iterrows()],
        "doubling": _describe_doubling(table) if len(known) else None,
        "noise": _describe_noise(table),
        "largest": list_largest(batch_search) if batch_search is not None else [],
    }


def _select_knees(table: pd.DataFrame) -> pd.DataFrame:
    """Return the knee of each curve with several sizes; for a curve without a knee, the largest batch."""
    is_knee, curves = table["is_knee"].astype(bool), [table[name] for name in SAME_PLACE]
    is_last = table["global_batch_size"] == table.groupby(SAME_PLACE, dropna=False)["global_batch_size"].transform(
        "max"
    )
    has_knee = is_knee.groupby(curves, dropna=False).transform("any")
    return table[is_knee | (is_last & ~has_knee & table["knee_lowest"].notna())]


def _describe_knee(row: pd.Series) -> Facts:
    """Return the knee of a curve and its range, which one repeat does not have. row: a row of _select_knees."""
    is_sure = row["num_repeats"] > 1
    return name_place(row) | {
        "global_batch_size": int(row["global_batch_size"]),
        "is_knee": bool(row["is_knee"]),
        "num_repeats": int(row["num_repeats"]),
        "lowest": int(row["knee_lowest"]) if is_sure and pd.notna(row["knee_lowest"]) else None,
        "highest": int(row["knee_highest"]) if is_sure and pd.notna(row["knee_highest"]) else None,
    }


def _describe_doubling(table: pd.DataFrame) -> Facts | None:
    """Compare the knee of the fastest curve with the next batch of at least twice its size; else the last such pair."""
    sound = table[(table["num_repeats"] > 0) & (table["num_failed"] == 0)]
    if sound.empty:
        return None
    fastest = sound.sort_values("images_per_s_median", ascending=False, kind="stable").iloc[0]
    curve = sound[(sound[SAME_PLACE] == fastest[SAME_PLACE]).all(axis=1)].sort_values("global_batch_size")
    sizes = curve["global_batch_size"]
    bases = pd.concat([curve[curve["is_knee"].astype(bool)], curve.iloc[::-1]])
    base = next((row for _, row in bases.iterrows() if (sizes >= 2 * row["global_batch_size"]).any()), None)
    if base is None:
        return None
    larger = curve[sizes >= 2 * base["global_batch_size"]].iloc[0]
    has_spread = max(base["num_repeats"], larger["num_repeats"]) > 1
    return name_place(base) | {
        "global_batch_size": [int(each["global_batch_size"]) for each in (base, larger)],
        "images_per_s": [float(each["images_per_s_median"]) for each in (base, larger)],
        "times_rate": larger["images_per_s_median"] / base["images_per_s_median"],
        "times_rate_min": larger["images_per_s_min"] / base["images_per_s_max"] if has_spread else None,
        "times_rate_max": larger["images_per_s_max"] / base["images_per_s_min"] if has_spread else None,
        "target": describe_target(base, larger),
    }


def describe_target(base: pd.Series, larger: pd.Series) -> Facts | None:
    """Return what reaching the target with a larger batch takes, relative to the base; None if the base has no target.

    The ratios are None if half or more of the larger batch's repeats do not reach it.
    """
    if pd.isna(base["images_to_target_median"]) or not larger["num_judged"]:
        return None
    facts: Facts = {"metric": name_metric(base["metric"]), "threshold": float(base["target"])}
    facts |= {"num_judged": int(larger["num_judged"]), "num_reached": int(larger["num_reached"])}
    if pd.isna(larger["images_to_target_median"]):
        return facts | {"times_images": None, "times_time": None, "epochs": None}
    return facts | {
        "times_images": larger["images_to_target_median"] / base["images_to_target_median"],
        "times_time": larger["train_s_to_target_median"] / base["train_s_to_target_median"],
        "epochs": [float(each["epochs_to_target_median"]) for each in (base, larger)],
    }


def _describe_noise(table: pd.DataFrame) -> Facts | None:
    """Return the range of the measured noise scales and of what measuring took; None if none was measured."""
    if not table["num_noise_measurements"].sum():
        return None
    scales, parts = table["noise_scale"].dropna(), table["noise_s_per_train_s"].dropna()
    return {
        "lowest": float(scales.min()) if len(scales) else None,
        "highest": float(scales.max()) if len(scales) else None,
        "time_frac": float(parts.max()) if len(parts) else None,
    }


def list_largest(batch_search: pd.DataFrame) -> list[Facts]:
    """Return the largest batch that fits on one device, and its limit, of each series that was searched."""
    if batch_search.empty:
        return []
    series = batch_search.drop_duplicates(SEARCHED)
    return [
        {
            "series": row["series"],
            "device": row["device"],
            "largest": None if pd.isna(row["largest"]) else int(row["largest"]),
            "taken": None if pd.isna(row["per_device_batch_size"]) else int(row["per_device_batch_size"]),
            "limit": row["limit"],
            "limit_reason": None if pd.isna(row["limit_reason"]) else str(row["limit_reason"]),
        }
        for _, row in add_series(series.assign(input="arrays")).iterrows()
    ]
