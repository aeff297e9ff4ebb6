"""Why each curve bends, in one sentence at its largest device count."""

import pandas as pd

from howmanygpus.report.rows import choose_inputs, name_count
from howmanygpus.report.tables.explanations import LINE

MAX_CURVES_NAMED = 12


def describe_causes(explanations: pd.DataFrame | None) -> list[str]:
    """Return the sentence of each curve that says why it bends, and one about the wall time that is in no rate.

    A curve without a rate on its largest device count is explained at the largest one that has a rate. explanations:
    the table of that name; None if it was not made.
    """
    if explanations is None or explanations.empty:
        return []
    lines = []
    curves = list(choose_inputs(explanations).groupby([*LINE, "placement"], sort=False))
    for _, curve in curves[:MAX_CURVES_NAMED]:
        rows = curve.sort_values("num_gpus", ascending=False, kind="stable")
        known = rows["loss_frac"].notna()
        last = rows[known.cumsum().eq(0) | (known & known.cumsum().eq(1))]
        lines.append(" ".join(last["sentence"]))
    if len(curves) > MAX_CURVES_NAMED:
        more = name_count(len(curves) - MAX_CURVES_NAMED, "more curve")
        lines.append(f"The table explanations.tsv explains {more}.")
    return lines + describe_wall_time([curve for _, curve in curves])


def describe_wall_time(curves: list[pd.DataFrame]) -> list[str]:
    """Return the sentence about the wall time of the curve that has the most outside of its rate; nothing if none has.

    curves: the rows of each, of which those on the largest device count are looked at.
    """
    ends = pd.DataFrame([curve.sort_values("num_gpus", kind="stable").iloc[-1] for curve in curves])
    ends = ends[ends["wall_sentence"].notna()]
    if ends.empty:
        return []
    outside = ends["evaluation_wall_frac"].fillna(0.0) + ends["startup_wall_frac"].fillna(0.0)
    text = str(ends.loc[outside.idxmax(), "wall_sentence"])
    return [text + (f" The table time_split.tsv has {name_count(len(ends) - 1, 'other curve')}." * (len(ends) > 1))]
