"""What a study was billed, and which configuration is the cheapest."""

import pandas as pd

from howmanygpus.report.answer.names import CONFIGURATION, find_repeats, name_configuration


def describe_bill(runs: pd.DataFrame) -> str:
    """Name the billed device-hours of all runs, and their cost; nothing if no hours are known."""
    billed = runs[runs["billed_device_hours"].notna()]
    if billed.empty:
        return ""
    hours, failed = billed["billed_device_hours"].sum(), billed["failed_billed_device_hours"].sum()
    priced = billed[billed["cost"].notna()]
    costs = [f"{rows['cost'].sum():.3g} {currency}" for currency, rows in priced.groupby("currency")]
    price = f", {' and '.join(costs)}" if costs else ""
    return f"Billed: {hours:.3g} device-hours{price}, of which failed attempts took {failed:.3g} device-hours."


def name_cheapest(runs: pd.DataFrame, candidates: pd.DataFrame, goal: str) -> str:
    """Name the cheapest of some configurations that reached a goal.

    candidates: rows of a summary of times to accuracy. With a price, a run costs what it was billed, failed attempts
    included. Without one, the device-seconds of training are compared.
    """
    costs = runs.groupby(CONFIGURATION)["cost"].median().rename("cost_median").reset_index()
    priced = candidates.merge(costs, on=CONFIGURATION)
    if len(priced) == len(candidates) and priced["cost_median"].notna().all() and runs["currency"].nunique() == 1:
        best = priced.sort_values("cost_median", kind="stable").iloc[0]
        unit = runs["currency"].dropna().iloc[0]
        repeats = find_repeats(runs, best)["cost"].count()
        scope = "one repeat" if repeats == 1 else f"median of {repeats} repeats"
        return (
            f"Cheapest run that reached {goal}: {name_configuration(best)}: {best['cost_median']:.3g} {unit} ({scope}),"
            " as billed for the whole run with its failed attempts."
        )
    device_s = (candidates["time_s_median"] * candidates["num_gpus"]).sort_values(kind="stable")
    best = candidates.loc[device_s.index[0]]
    return (
        f"Cheapest to {goal}: {name_configuration(best)}: {device_s.iloc[0]:.3g} device-seconds of training"
        " (the machine file has no price)."
    )
