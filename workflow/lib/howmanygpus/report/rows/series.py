"""Names of series: the lines of figures, and the configurations in answers."""

import pandas as pd


def name_series(table: pd.DataFrame) -> pd.Series:
    """Name of each row's line: its framework, and those of variant, input, precision and device that vary."""
    varying = [column for column in ("variant", "input", "precision", "device") if table[column].nunique() > 1]
    return table[["framework", *varying]].astype(str).agg(" ".join, axis=1)
