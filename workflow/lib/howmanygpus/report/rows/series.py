"""Names of series: the lines of figures, and the configurations in answers."""

import pandas as pd

from howmanygpus.report.rows.learning import has_own_rates

DAGGER = "\N{DAGGER}"
"""Stands behind the name of a series whose framework learns by rates of its own."""


def name_series(table: pd.DataFrame, runs: pd.DataFrame | None = None) -> pd.Series:
    """Name of each row's line: its framework, and what varies of variant, input, precision, device and placement.

    runs: the table of that name, if the names are to say by a dagger which frameworks learn by rates of their own.
    """
    columns = ("variant", "input", "precision", "device", "placement")
    varying = [column for column in columns if table[column].nunique() > 1]
    names = table[["framework", *varying]].astype(str).agg(" ".join, axis=1)
    return names if runs is None or table.empty else names.mask(has_own_rates(table, runs), names + f" {DAGGER}")
