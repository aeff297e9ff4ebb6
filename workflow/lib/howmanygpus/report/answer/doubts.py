"""Doubts about the rates of a study: runs that are outliers, and a drift of the machine."""

import pandas as pd

from howmanygpus.report.answer.names import add_series, name_configuration
from howmanygpus.report.drift import choose_unit, compute_relative_rates, describe_drift, measure_drift
from howmanygpus.report.outliers import CONFIGURATION
from howmanygpus.report.rows import choose_inputs

MAX_OUTLIERS_NAMED = 4


def describe_outliers(runs: pd.DataFrame) -> str:
    """Name the runs whose rate is far from that of the other repeats, with their folders; empty if there are none."""
    rates = runs[runs["images_per_s"].notna()].astype({"images_per_s": float})
    ratio = rates["images_per_s"] / rates.groupby(CONFIGURATION)["images_per_s"].transform("median") - 1
    outliers = add_series(rates.assign(distance=ratio))[lambda table: table["is_outlier"].eq(True)]
    if outliers.empty:
        return ""
    outliers = outliers.sort_values("distance", key=abs, ascending=False, kind="stable")
    named = [
        f"{name_configuration(row)}, repeat {row['repeat']}, {row['distance']:+.0%} from its median ({row['run_dir']})"
        for _, row in outliers.head(MAX_OUTLIERS_NAMED).iterrows()
    ]
    more = [f"and {len(outliers) - len(named)} more in runs.tsv"] if len(outliers) > len(named) else []
    what = "is an outlier" if len(outliers) == 1 else "are outliers"
    return (
        f"{len(outliers)} of {len(rates)} rates {what} among the repeats, and counted like all others: "
        f"{'; '.join(named + more)}."
    )


def describe_trend(runs: pd.DataFrame) -> str:
    """Say whether the rates rose or fell while the study was measured; empty if the repeats show no trend."""
    drift = measure_drift(compute_relative_rates(choose_inputs(runs)))
    if drift is None or not drift.is_trend:
        return ""
    change, (unit, per_hour) = "rose" if drift.change > 0 else "fell", choose_unit(drift.hours)
    return (
        f"Rates {change} by {abs(drift.change):.1%} in the {drift.hours * per_hour:.2g} {unit} of the study "
        f"({describe_drift(drift)}; figure drift): the machine changed, and configurations that ran at other times "
        "are not quite comparable."
    )
