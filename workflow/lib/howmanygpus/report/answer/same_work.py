"""Whether the variants of a user's program did the same work: by their losses at equal steps, and by their quality."""

from typing import Any

import pandas as pd

from howmanygpus.report.answer.candidates import Candidate
from howmanygpus.report.answer.names import OF_STUDY
from howmanygpus.report.columns import IDENTITY
from howmanygpus.report.metrics import name_metric
from howmanygpus.report.words import word

Facts = dict[str, Any]
PLACE = [name for name in IDENTITY if name != "variant"]
"""Columns that the runs of several variants share which do the same work."""


def explain_other_work(runs: pd.DataFrame, found: list[Candidate], losses: pd.DataFrame) -> str | None:
    """Say how the variants of a program did other work, or that nothing shows equal work; None if the losses show it.

    runs: of one work, with any number of variants. found: the configurations to choose from. losses: the table of that
    name.
    """
    if len({candidate.names["variant"] for candidate in found}) < 2:
        return None
    done = runs.loc[runs["status"] == "completed", IDENTITY]
    known = losses.merge(done, on=IDENTITY)
    apart = known[known["difference"] > known["difference_limit"]]
    if len(apart):
        return word("doubts", "losses_part", **_describe_first(apart, known))
    compared = known.loc[known["difference"].notna(), IDENTITY].drop_duplicates()
    left = done.merge(compared, on=IDENTITY, how="left", indicator=True)
    is_needed = done.groupby(PLACE)["variant"].transform("nunique") > 1
    is_alone = ~left["variant"].isin(compared["variant"])
    lacking = left[left["_merge"].eq("left_only") & (is_needed.to_numpy() | is_alone)]
    if lacking.empty:
        return None
    has_loss = lacking["variant"].isin(known["variant"])
    return word("doubts", "losses_not_compared", variants=sorted(lacking["variant"].unique()), has_loss=has_loss.all())


def _describe_first(apart: pd.DataFrame, known: pd.DataFrame) -> Facts:
    """Return the first step at which losses part, with those of the run that is farthest there and of another one."""
    first = apart[apart["last_step"] == apart["last_step"].min()]
    row = first.assign(ratio=first["difference"] / first["difference_limit"]).sort_values("ratio").iloc[-1]
    there = known[(known[[*PLACE, "last_step"]] == row[[*PLACE, "last_step"]]).all(axis=1)]
    others = there[there["variant"] != row["variant"]]
    other = others.loc[(others["loss"] - row["loss"]).abs().idxmax()]
    return {
        "step": int(row["last_step"]),
        "num_gpus": int(row["num_gpus"]),
        "variants": [str(each["variant"]) for each in (row, other)],
        "losses": [float(each["loss"]) for each in (row, other)],
        "difference": float(abs(row["loss"] - other["loss"]) / abs(other["loss"])),
        "limit": float(row["difference_limit"] * (1 if other["difference"] < row["difference"] else 2)),
    }


def group_places(found: list[Candidate]) -> list[list[Candidate]]:
    """Return the configurations of each place, which differ in the variant alone; at least two each."""
    places: dict[tuple, list[Candidate]] = {}
    for candidate in found:
        place = tuple(candidate.names[name] for name in OF_STUDY if name != "variant")
        places.setdefault(place, []).append(candidate)
    return [group for group in places.values() if len(group) > 1]


def explain_other_quality(group: list[Candidate], metric: str | None, margin: float) -> str:
    """Say that configurations that differ in the variant alone do not end at the same quality."""
    qualities = {each.names["variant"]: each.quality for each in group}
    facts = {"num_gpus": group[0].num_gpus, "qualities": qualities, "margin": margin}
    return word("doubts", "qualities_part", metric=name_metric(metric) if metric else "quality", **facts)
