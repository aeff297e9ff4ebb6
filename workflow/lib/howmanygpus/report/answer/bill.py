"""The bill of a study as facts: the device-hours of all its jobs by purpose, and what they cost."""

from typing import Any

import pandas as pd

PURPOSES = {"run": "runs", "gate": "parity gate", "probe": "probe", "allreduce": "all-reduce"}
PURPOSES |= {"batch_search": "searches for the largest batch"}
PURPOSES |= {"allocation": "packed allocations"}
WASTED = "failed attempts"
NOT_WASTED = (
    *("completed", "clock_mismatch", "suspended", "diverged", "out_of_memory", "unsupported", "failed_parity"),
    *("running", "ended"),
)
"""Statuses of jobs that had an outcome, or may still have one."""


def add_up_bill(jobs: pd.DataFrame) -> dict[str, Any] | None:
    """Return device-hours by purpose, costs by currency and who counted the jobs; None if no hours are known.

    jobs: the table of that name. On a machine without jobs and prices nothing is billed; the hours are then those in
    which programs had the devices.
    """
    is_billed = bool(jobs["billed_device_hours"].notna().any())
    column = "billed_device_hours" if is_billed else "device_hours"
    known = jobs[jobs[column].notna()]
    if known.empty:
        return None
    purpose = known["kind"].map(PURPOSES).where(known["status"].isin(NOT_WASTED), WASTED)
    hours = known.groupby(purpose)[column].sum()
    priced = known[known["cost"].notna()]
    return {
        "is_billed": is_billed,
        "device_hours": float(hours.sum()),
        "purposes": {name: float(hours[name]) for name in (*PURPOSES.values(), WASTED) if name in hours},
        "costs": {str(currency): float(rows["cost"].sum()) for currency, rows in priced.groupby("currency")},
        "jobs": count_jobs(jobs),
    }


def count_jobs(jobs: pd.DataFrame) -> dict[str, int]:
    """Count the jobs by who counted their hours. Nobody knows when the unknown ones ended, which are left out."""
    # A job that several studies share has a row for each.
    own = jobs[jobs["kind"] != "allocation"].drop_duplicates("record")
    open_ended = own[own["hours"].isna()]
    num_running = int((open_ended["status"] == "running").sum())
    return {
        "slurm": int((own["counted_by"] == "SLURM").sum()),
        "program": int((own["counted_by"] == "job").sum()),
        "running": num_running,
        "unknown": len(open_ended) - num_running,
    }
