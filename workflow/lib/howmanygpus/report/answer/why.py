"""Why each curve bends, in one sentence at its largest device count."""

import pandas as pd

from howmanygpus.report.rows import choose_inputs, name_count
from howmanygpus.report.tables.explanations import LINE

MAX_CURVES_NAMED = 12


def describe_causes(explanations: pd.DataFrame | None) -> list[str]:
    """Return the sentences of each curve: why it bends, and which large parts of its wall time are in no rate.

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
        sentences = [*last["sentence"], *last["wall_sentence"].dropna()]
        lines.append(" ".join(sentences))
    if len(curves) > MAX_CURVES_NAMED:
        more = name_count(len(curves) - MAX_CURVES_NAMED, "more curve")
        lines.append(f"The table explanations.tsv explains {more}.")
    return lines
