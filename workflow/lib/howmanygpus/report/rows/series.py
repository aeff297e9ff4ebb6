"""Names of series: the lines of figures, and the configurations in answers."""

import pandas as pd


def name_series(table: pd.DataFrame) -> pd.Series:
    """Name of each row's line: its framework, and what varies of variant, input, precision, device and placement."""
    columns = ("variant", "input", "precision", "device", "placement")
    varying = [column for column in columns if table[column].nunique() > 1]
    return table[["framework", *varying]].astype(str).agg(" ".join, axis=1)
