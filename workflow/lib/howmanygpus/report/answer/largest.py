"""The largest batch that fits, as a search found it."""

import pandas as pd

from howmanygpus.report.answer.names import add_series
from howmanygpus.report.rows import name_count

MAX_SERIES_NAMED = 6
LIMITS = {
    "memory": "memory",
    "host_memory": "memory of the host",
    "data_set": "bounded by the data set",
}


def describe_largest(batch_search: pd.DataFrame | None) -> str:
    """Name the largest batch of each series by the table of that name; nothing without a search."""
    if batch_search is None or batch_search.empty:
        return ""
    series = batch_search.drop_duplicates(["framework", "variant", "precision", "device"])
    series = add_series(series.assign(input="arrays"))
    parts = [_describe(row) for _, row in series.head(MAX_SERIES_NAMED).iterrows()]
    more = [f"and {len(series) - MAX_SERIES_NAMED} more in batch_search.tsv"] if len(series) > MAX_SERIES_NAMED else []
    return f"Largest batch that fits on one device: {'; '.join(parts + more)}."


def _describe(row: pd.Series) -> str:
    name = f"{row['series']} on {row['device']}"
    if pd.isna(row["largest"]):
        return f"{name}: none ({row['limit']}: {row['limit_reason']})"
    largest, taken = int(row["largest"]), row["per_device_batch_size"]
    text = f"{name}: {name_count(largest, 'image')} ({LIMITS[row['limit']]}"
    if pd.isna(taken):
        return f"{text}; {row['limit_reason']})"
    return f"{text})" if int(taken) == largest else f"{text}; runs take {int(taken)})"
