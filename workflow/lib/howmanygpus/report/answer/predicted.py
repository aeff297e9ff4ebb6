"""What is predicted for more devices than were measured, along the curve of each recommended configuration.

Without a recommendation because nothing measured keeps the deadline or the budget, it is the curve of what is nearest.
"""

from typing import Any

import pandas as pd

from howmanygpus.report.columns import FIXED, SERIES, list_columns

Facts = dict[str, Any]
ENDS = ("low", "high")
RANGES = ("images_per_s", "time_to_accuracy_s", "wall_time_s", "cost")
YES, PERHAPS, NO = "yes", "perhaps", "no"


def describe_predicted(predictions: pd.DataFrame, decisions: list[Facts], asked: Facts) -> list[Facts]:
    """Return the predictions for each decision with a recommendation, or with limits that nothing measured keeps.

    predictions: the table of that name. decisions, asked: of the facts, see report.answer.facts. Each prediction has
    the ends of its brackets, or why it lacks them, and whether it keeps the deadline and the budget. A contradiction is
    a critical batch by the steps to the target that is not the one by the measured gradient noise.
    """
    found = []
    for decision in decisions:
        chosen = decision["recommended"] or _find_nearest(decision["counts"], asked)
        rows = _choose_curve(predictions, chosen) if chosen else predictions[:0]
        beyond = rows[rows["measured_images_per_s"].isna()]
        if len(beyond):
            counts = [_describe(row, asked) for row in beyond.to_dict("records")]
            own = {"of": decision["of"], "curve": beyond["curve"].iloc[0], "counts": counts}
            found.append(own | {"contradiction": _find_contradiction(beyond)})
    return found


def _find_nearest(counts: list[Facts], asked: Facts) -> Facts | None:
    """Return the configuration with the least time, or price without a deadline, if none keeps what is asked for.

    counts: of a decision without a recommendation, which may have another reason.
    """
    limits = [(name, most) for name, most in (("wall_s", _read_deadline(asked)), ("cost", asked["budget"])) if most]
    known = [each for each in counts if all(each[name] for name, _ in limits)]
    kept = [each for each in known if all(each[name]["median"] <= most for name, most in limits)]
    return min(known, key=lambda each: each[limits[0][0]]["median"], default=None) if limits and not kept else None


def _read_deadline(asked: Facts) -> float | None:
    """Return the deadline in seconds."""
    return 3600 * asked["deadline_h"] if asked["deadline_h"] else None


def _find_contradiction(rows: pd.DataFrame) -> Facts | None:
    """Return critical batch and noise scale of a curve if their brackets do not meet; None if they do or one lacks."""
    for row in rows.to_dict("records"):
        critical, noise = _bracket(row, "critical_batch"), _bracket(row, "noise_scale")
        if critical and noise:
            apart = critical["high"] < noise["low"] or noise["high"] < critical["low"]
            return {"critical_batch": critical, "noise_scale": noise} if apart else None
    return None


def _choose_curve(predictions: pd.DataFrame, chosen: Facts) -> pd.DataFrame:
    """Return the rows of the recommended configuration's curve: of weak scaling if the study has it."""
    names = list_columns(SERIES)
    own = predictions[(predictions[names] == [chosen[name] for name in names]).all(axis=1)]
    sizes = {"per_device_batch_size": chosen["per_device_batch_size"]}
    sizes["global_batch_size"] = chosen["per_device_batch_size"] * chosen["accumulate"] * chosen["num_gpus"]
    for mode, size in FIXED.items():
        rows = own[(own["scaling_mode"] == mode) & (own["fixed_batch_size"] == sizes[size])]
        if len(rows):
            return rows
    return own[:0]


def _describe(row: Facts, asked: Facts) -> Facts:
    limits = {"deadline": (_read_deadline(asked), "wall_time_s"), "budget": (asked["budget"], "cost")}
    return {
        **{name: int(row[name]) for name in ("num_gpus", "num_nodes", "global_batch_size")},
        "device": row["device"],
        **{name: _bracket(row, name) for name in RANGES},
        **{name: _text(row[name]) for name in ("bound", "currency", "lacks", "lacks_target")},
        **{name: None if pd.isna(row[name]) else row[name] for name in ("checked_num_gpus", "checked_error_frac")},
        "keeps": {name: _judge(_bracket(row, column), most) for name, (most, column) in limits.items() if most},
    }


def _bracket(row: Facts, name: str) -> dict[str, float] | None:
    ends = {end: row[f"{name}_{end}"] for end in ENDS}
    return None if any(map(pd.isna, ends.values())) else ends


def _text(value: Any) -> str | None:
    return None if pd.isna(value) else str(value)


def _judge(bracket: dict[str, float] | None, most: float) -> str | None:
    """Return whether a limit is kept in all of a bracket, in a part of it, or in none; None without a bracket."""
    if bracket is None:
        return None
    return YES if bracket["high"] <= most else PERHAPS if bracket["low"] <= most else NO
