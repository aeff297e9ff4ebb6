"""Throughput of every completed run."""

import pandas as pd

READS = ("runs",)
COLUMNS = ("model", "variant", "images_per_s")


def tabulate(plan: dict, runs: pd.DataFrame) -> pd.DataFrame:
    """runs: the table of that name."""
    return runs.loc[runs["status"] == "completed", list(COLUMNS)]
