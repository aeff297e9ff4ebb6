"""
The largest measured count of each curve, predicted from the smaller ones, for studies with the key `predict`.

`error_frac` says by how much the middle of the bracket is above the measured rate, and `miss` is the factor by which
the measured step is outside the bracket; 1 within. The worst miss of all other curves of these results widens the
brackets of the table `predictions`, where the same checks stand beside what they judge.
"""

import pandas as pd

from howmanygpus.report.columns import LINE, PLACE, list_columns
from howmanygpus.report.tables.predictions import check, describe_check, list_evidence

READS = ("runs", "scaling", "run_phases", "allreduces")
NEEDS = "predict"
COLUMNS = [
    *(*LINE, "curve", *list_columns(PLACE, but=["placement"]), "global_batch_size"),
    *("images_per_s_low", "images_per_s", "images_per_s_high", "bound"),
    *("measured_images_per_s", "error_frac", "miss"),
]


def tabulate(
    plan: dict, runs: pd.DataFrame, scaling: pd.DataFrame, run_phases: pd.DataFrame, allreduces: list[dict]
) -> pd.DataFrame:
    """One row per curve that has a check. The inputs are those of the table `predictions`."""
    rows = []
    for line, evidence in list_evidence(plan, runs, scaling, run_phases, allreduces):
        if isinstance(checked := check(evidence), tuple):
            point, bracket = checked
            rows.append(describe_check(line, point, bracket) | {"miss": bracket.miss(point.step_s)})
    return pd.DataFrame(rows).reindex(columns=COLUMNS)
