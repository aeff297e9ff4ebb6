"""Why a recommendation has no more devices: their price, the target, the images that they need, or their rate."""

from math import isfinite
from statistics import median
from typing import Any

import numpy as np
import pandas as pd

from howmanygpus.report.answer.candidates import Candidate
from howmanygpus.report.answer.details import read_cause
from howmanygpus.report.answer.doubts import Case
from howmanygpus.report.columns import SERIES, list_columns
from howmanygpus.report.metrics import name_metric
from howmanygpus.report.rows import find_unit
from howmanygpus.report.shares import NAMED_FRAC
from howmanygpus.report.words import word

Facts = dict[str, Any]


def find_limit(case: Case, explanations: pd.DataFrame | None) -> Facts | None:
    """Return why the next device count is not recommended; None if no more devices were planned, or nothing says it.

    explanations: the table of that name, if it was made. The result has a kind, and what read_cause returns; `curve` is
    the sentence on the recommended curve, also if something else decided, or None; `further` says that larger numbers
    gain too little as well, or is None. `facts` of a curve say whether the sentence has a loss, and whether it is about
    another batch than the recommended one, because that one has no curve.
    """
    chosen = case.chosen
    if chosen is None or not (case.runs["num_gpus"] > chosen.num_gpus).any():
        return None
    own = None if explanations is None else _choose_explanation(chosen, explanations)
    limit = _find_limit(case, chosen, own)
    if limit is None:
        return None
    return limit | {"curve": None if own is None else own["sentence"], "further": _explain_further(case, chosen)}


def _explain_further(case: Case, chosen: Candidate) -> str | None:
    """Say of what is beyond the next device count that it gains too little as well; None if nothing does."""
    if case.worth_doubling is None:
        return None
    _, *further = [each for count, each in case.by_count.items() if count > chosen.num_gpus] or [chosen]
    short = [not each.gains_enough_over(chosen, case.worth_doubling) for each in further]
    return word("doubts", "no_further", counts=[each.num_gpus for each in further]) if short and all(short) else None


def _find_limit(case: Case, chosen: Candidate, own: pd.Series | None) -> Facts | None:
    more = next((each for count, each in case.by_count.items() if count > chosen.num_gpus), None)
    if more is None:
        return _explain_absence(case, chosen)
    gain = more.gain_over(chosen)
    known: dict[str, Any] = {"more": str(more), "gain": gain.as_fact()}
    if case.worth_doubling is None:
        is_late = case.deadline_h is not None and bool(more.walls) and median(more.walls) > 3600 * case.deadline_h
        is_dearer = 0 < chosen.price < more.price and not is_late
        return _say("dearer", **known, times_price=more.price / chosen.price) if is_dearer else None
    if case.budget is not None and more.costs and more.cost > case.budget:
        prices = {"cost": more.cost, "currency": more.currency, "budget": case.budget}
        return _say("more_than_the_budget", **known, **prices)
    needed = more.need_over(chosen, case.worth_doubling)
    if more.gains_enough_over(chosen, case.worth_doubling):
        return _say("gain_not_told", **known) if more.is_tied_by_repeats_with(chosen) else None
    known |= {"needed": needed}
    trained = chosen.duration / more.duration
    if trained >= needed:
        return _say("more_start", **known, trained=trained, parts=_split_wall_time(more))
    if case.goal.is_target and more.rates and chosen.rates:
        rate = median(more.rates) / median(chosen.rates)
        sizes = [each.names["global_batch_size"] for each in (chosen, more)]
        if rate >= needed and sizes[0] < sizes[1]:
            return _say(
                "more_images", **known, rate=rate, images=rate / trained, sizes=sizes, unit=find_unit(case.runs)
            )
    if (lack := _find_lacking_batch(case, chosen, more)) is not None:
        return _say("other_batch", **known, **lack)
    if own is None:
        return _say("gain_unexplained", **known)
    explained = {
        "num_gpus": more.num_gpus,
        "has_loss": bool(pd.notna(own["loss_frac"])),
        "is_other_batch": not _is_same_curve(own.to_frame().T, chosen).item(),
    }
    return {"kind": "curve", "facts": known | explained} | read_cause(own)


def _split_wall_time(candidate: Candidate) -> Facts | None:
    """Return the median seconds of start-up, training and evaluation until the target; None if they are not known."""
    if not candidate.evaluated or not all(map(isfinite, candidate.starts)):
        return None
    seconds = {"start": candidate.starts, "train": candidate.durations, "evaluation": candidate.evaluated}
    return {name: {"median": median(values), "low": None, "high": None} for name, values in seconds.items()}


def _find_lacking_batch(case: Case, chosen: Candidate, more: Candidate) -> Facts | None:
    """Return the recommended batch and the statuses of its runs if more devices have no result with it.

    None if they have one, or as large a global batch on more devices is what is compared.
    """
    sizes = [each.names["per_device_batch_size"] for each in (chosen, more)]
    is_strong = more.names["global_batch_size"] == chosen.names["global_batch_size"]
    runs = case.runs[(case.runs["num_gpus"] == more.num_gpus) & (case.runs["per_device_batch_size"] == sizes[0])]
    if sizes[1] >= sizes[0] or is_strong or (runs["status"] == "completed").any():
        return None
    return {"size": int(sizes[0]), "num_gpus": more.num_gpus, "statuses": runs["status"].value_counts().to_dict()}


def _say(kind: str, **facts: Any) -> Facts:
    return {"kind": kind, "sentence": word("doubts", kind, **facts), "facts": facts, "remedy": None, "run_next": None}


def _explain_absence(case: Case, chosen: Candidate) -> Facts:
    """Say why no configuration on more devices can be compared."""
    num_gpus = int(case.runs.loc[case.runs["num_gpus"] > chosen.num_gpus, "num_gpus"].min())
    planned = case.runs[case.runs["num_gpus"] == num_gpus]
    found = [each for each in case.found if each.num_gpus == num_gpus]
    if any(each not in case.unequal for each in found):
        return _say("more_disturbed", num_gpus=num_gpus)
    if found:
        return _say("more_unequal", num_gpus=num_gpus, metric=name_metric(case.goal.metric or ""))
    if case.goal.is_target and (planned["status"] == "completed").all():
        target = {"metric": name_metric(case.goal.metric or ""), "threshold": case.goal.threshold}
        return _say("more_miss_the_target", num_gpus=num_gpus, **target)
    return _say("more_incomplete", num_gpus=num_gpus, statuses=planned["status"].value_counts().to_dict())


def _choose_explanation(chosen: Candidate, explanations: pd.DataFrame) -> pd.Series | None:
    """Return the row that says what the recommended curve loses on more devices; None if none does.

    The curve is that of the recommended batch if it has a row, and the next device count is explained. If something
    about it is not known, one of which everything is known is better.
    """
    known = list_columns(SERIES, but=["input"])
    loss = explanations["loss_frac"].astype(float)
    own = explanations[
        (explanations[known] == [chosen.names[name] for name in known]).all(axis=1)
        & (explanations["input"].isna() | (explanations["input"] == chosen.names["input"]))
        & (explanations["num_gpus"] > chosen.num_gpus)
        & explanations["sentence"].notna()
        & (loss.isna() | ((loss >= NAMED_FRAC) & ~(explanations["loss_frac_low"].astype(float) <= 0)))
    ]
    if own.empty:
        return None
    order = {
        "is_other": ~_is_same_curve(own, chosen),
        "is_open": own["not_known"].notna() | own["loss_frac"].isna(),
    }
    return own.assign(**order).sort_values([*order, "num_gpus"], kind="stable").iloc[0]


def _is_same_curve(explanations: pd.DataFrame, chosen: Candidate) -> pd.Series:
    """Return whether the curve of each row has the recommended batch: in all, in strong scaling, else per device."""
    return pd.Series(
        np.where(
            explanations["scaling_mode"].eq("strong"),
            explanations["global_batch_size"].eq(chosen.names["global_batch_size"]),
            explanations["per_device_batch_size"].eq(chosen.names["per_device_batch_size"]),
        ),
        explanations.index,
        dtype=bool,
    )
