"""How the facts of an answer name a configuration."""

from typing import Any

import pandas as pd

from howmanygpus.report.columns import BATCH, FEWEST_NODES, PLACE, SERIES, list_columns
from howmanygpus.report.rows import name_series

OF_STUDY = list_columns(SERIES, PLACE, BATCH, but=["global_batch_size"])
"""Columns that name a configuration in every table of one study."""


def add_series(table: pd.DataFrame) -> pd.DataFrame:
    """Add the name of each row's series, without its number of nodes, which name_place adds."""
    return table.assign(series=name_series(table.assign(placement="")))


def name_place(row: pd.Series) -> dict[str, Any]:
    """Return the series of a row and its devices, with the number of nodes if the study has chosen it."""
    nodes = None if row["placement"] == FEWEST_NODES else int(row["num_nodes"])
    return {"series": row["series"], "num_gpus": int(row["num_gpus"]), "device": row["device"], "num_nodes": nodes}
