"""The bill of a study, and the cheapest configuration."""

import pandas as pd

from howmanygpus.report.answer.names import CONFIGURATION, describe_reached, name_configuration, select_repeats
from howmanygpus.report.answer.ties import MAX_TIED_NAMED, Repeats, describe_tie
from howmanygpus.report.outcomes import UNDECIDED
from howmanygpus.report.tables.time_to_accuracy import summarize_time_to_accuracy

PURPOSES = {"run": "runs", "gate": "parity gate", "probe": "probe", "allreduce": "all-reduce"}
PURPOSES |= {"batch_search": "searches for the largest batch"}
PURPOSES |= {"allocation": "packed allocations"}
NOT_WASTED = (
    *("completed", "clock_mismatch", "suspended", "diverged", "out_of_memory", "unsupported", "failed_parity"),
    *("running", "ended"),
)
"""Statuses of jobs that had an outcome, or may still have one."""


def describe_bill(jobs: pd.DataFrame) -> str:
    """Name the billed device-hours of all jobs by purpose, and their cost; nothing if no hours are known.

    jobs: the table of that name. On a machine without jobs and prices nothing is billed; the text then names
    device-hours.
    """
    column = "billed_device_hours" if jobs["billed_device_hours"].notna().any() else "device_hours"
    known = jobs[jobs[column].notna()]
    if known.empty:
        return ""
    purpose = known["kind"].map(PURPOSES).where(~has_failed_itself(known["status"]), "failed attempts")
    hours = known.groupby(purpose)[column].sum()
    parts = [f"{name} {hours[name]:.3g}" for name in (*PURPOSES.values(), "failed attempts") if name in hours]
    priced = known[known["cost"].notna()]
    costs = [f"{rows['cost'].sum():.4g} {currency}" for currency, rows in priced.groupby("currency")]
    price = f", {' and '.join(costs)}" if costs else ""
    text = f"{'Billed' if column.startswith('billed') else 'Used'}: {hours.sum():.3g} device-hours{price}"
    text += "" if costs else " (the machine file has no price)"
    return f"{text}, of which {', '.join(parts)}. {describe_counting(jobs)}"


def has_failed_itself(statuses: pd.Series) -> pd.Series:
    """Return whether each job ended without an outcome, so that its time was wasted."""
    return ~statuses.isin(NOT_WASTED)


def describe_counting(jobs: pd.DataFrame) -> str:
    """Say who counted the hours of the jobs, and how many jobs were not counted."""
    # A job that several studies share has a row for each.
    own = jobs[jobs["kind"] != "allocation"].drop_duplicates("record")
    by_slurm, by_job = (int((own["counted_by"] == who).sum()) for who in ("SLURM", "job"))
    parts = [f"{by_slurm} as SLURM counted"] if by_slurm else []
    parts += [f"{by_job} as their programs had the devices"] if by_job else []
    open_ended = own[own["hours"].isna()]
    running = int((open_ended["status"] == "running").sum())
    unknown = len(open_ended) - running
    parts += [f"{running} still running"] if running else []
    parts += [f"{unknown} left out because nobody knows when they ended"] if unknown else []
    return f"Jobs: {', '.join(parts)}."


def name_cheapest(runs: pd.DataFrame, table: pd.DataFrame, candidates: pd.DataFrame, goal: str) -> str:
    """Name the cheapest of some configurations that reached a goal.

    table: the times to accuracy of one threshold. candidates: rows of its summary. With a price, a configuration costs
    what it was billed until it reached the goal, failed attempts included. Without one, the device-seconds of training
    are compared. A run that says nothing about its configuration, such as a preempted one, has no time in the table,
    and the bill of its attempts is no price of a whole run.
    """
    judged = runs[~runs["status"].isin(UNDECIDED)]
    until = summarize_time_to_accuracy(table, "cost_to_accuracy").rename(columns={"time_s_median": "until_median"})
    whole = judged.groupby(CONFIGURATION)["cost"].median().rename("cost_median").reset_index()
    priced = candidates.merge(until[[*CONFIGURATION, "threshold", "until_median"]]).merge(whole, on=CONFIGURATION)
    if len(priced) == len(candidates) and priced["until_median"].notna().all() and runs["currency"].nunique() == 1:
        priced = priced.sort_values("until_median", kind="stable")
        cheapest = Repeats(table, "cost_to_accuracy").list_best(priced, "lower")
        best = cheapest.iloc[0]
        unit = runs["currency"].dropna().iloc[0]
        repeats = select_repeats(judged, best)["cost"].count()
        scope = "one repeat" if repeats == 1 else f"medians of {repeats} repeats"
        prices = (
            f"{best['until_median']:.3g} {unit} until it was reached, {best['cost_median']:.3g} {unit} for the whole "
            f"run ({scope}), as billed with failed attempts{describe_reached(runs, best)}"
        )
        return f"Cheapest to {goal}: {_name_tied(cheapest, 'until_median', unit, prices)}."
    times = table.assign(device_s=table["time_to_accuracy_s"].astype(float) * table["num_gpus"])
    candidates = candidates.assign(device_s_median=candidates["time_s_median"] * candidates["num_gpus"])
    candidates = candidates.sort_values("device_s_median", kind="stable")
    cheapest = Repeats(times, "device_s").list_best(candidates, "lower")
    best = cheapest.iloc[0]
    why = "not all have a price in one currency" if runs["cost"].notna().any() else "the machine file has no price"
    prices = f"{best['device_s_median']:.3g} device-seconds of training{describe_reached(runs, best)} ({why})"
    return f"Cheapest to {goal}: {_name_tied(cheapest, 'device_s_median', 'device-seconds', prices)}."


def _name_tied(cheapest: pd.DataFrame, median: str, unit: str, prices: str) -> str:
    """Name the cheapest configuration with its prices, or all that tie before it."""
    if len(cheapest) == 1:
        return f"{name_configuration(cheapest.iloc[0])}: {prices}"
    rows = [row for _, row in cheapest.head(MAX_TIED_NAMED).iterrows()]
    named = [f"{name_configuration(row)}: {row[median]:.3g} {unit}" for row in rows]
    return f"{describe_tie(cheapest, named)}: {prices}"
