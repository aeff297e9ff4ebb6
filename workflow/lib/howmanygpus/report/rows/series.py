"""Names of series: the lines of figures, and the configurations in answers."""

import pandas as pd

from howmanygpus.report.rows.learning import has_own_rates

DAGGER = "\N{DAGGER}"
"""Suffix of the name of a series whose framework has its own learning rates."""


def name_series(table: pd.DataFrame, runs: pd.DataFrame | None = None) -> pd.Series:
    """Return the name of each row's line: its framework, and variant, input, precision, device, placement if they vary.

    runs: the table of that name, if daggers are to mark frameworks with their own learning rates.
    """
    columns = ("variant", "input", "precision", "device", "placement")
    varying = [column for column in columns if table[column].nunique() > 1]
    names = table[["framework", *varying]].astype(str).agg(" ".join, axis=1)
    return names if runs is None or table.empty else names.mask(has_own_rates(table, runs), names + f" {DAGGER}")
