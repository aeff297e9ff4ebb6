"""The effects of unfair protocols of published studies. No ranking contains their runs."""

import pandas as pd

from howmanygpus.report.metrics import name_metric
from howmanygpus.report.published import WORDS
from howmanygpus.report.rows import choose_inputs, name_count
from howmanygpus.report.tables.protocols import CONFIGURATION, NO, QUALITY, RATE

MAX_FRAMEWORKS_NAMED = 8


def describe_protocols(protocols: pd.DataFrame) -> list[str]:
    """Say what each protocol changes on the largest device count, and whether the order of frameworks changes.

    protocols: the table of that name.
    """
    described = [choose_inputs(protocols[protocols["protocol"] == name]) for name in WORDS]
    return [_describe(rows) for rows in described if len(rows)]


def _describe(rows: pd.DataFrame) -> str:
    # Several rows of one protocol are about the same configuration, by different measures.
    counts = rows.groupby(CONFIGURATION, sort=False)["framework"].nunique().reset_index()
    shown = counts.sort_values(["num_gpus", "framework"], ascending=False, kind="stable").iloc[0]
    devices = name_count(shown["num_gpus"], f"{shown['device']} device")
    where = f"{devices} x {name_count(shown['per_device_batch_size'], 'image')}, {shown['input']} {shown['precision']}"
    measures = [_describe_measure(own, shown) for _, own in rows.groupby("measure", sort=False)]
    return f"Not comparable, {WORDS[rows['protocol'].iloc[0]]} ({where}): {' '.join(filter(None, measures))}"


def _describe_measure(rows: pd.DataFrame, shown: pd.Series) -> str:
    """Say how one measure changes in the shown configuration, and in how many configurations the order changes."""
    own = rows[(rows[CONFIGURATION] == shown[CONFIGURATION]).all(axis=1)].sort_values("fair_rank", kind="stable")
    if own.empty:
        return ""
    effects = [_describe_effect(row) for _, row in own.head(MAX_FRAMEWORKS_NAMED).iterrows()]
    effects += (
        [f"and {len(own) - MAX_FRAMEWORKS_NAMED} more in protocols.tsv"] if len(own) > MAX_FRAMEWORKS_NAMED else []
    )
    return f"{_name_measure(own.iloc[0])} {', '.join(effects)}{_describe_order(rows, shown)}."


def _name_measure(row: pd.Series) -> str:
    if row["measure"] == RATE:
        return "The rate changes by"
    if row["measure"] == QUALITY:
        return f"The final {name_metric(row['metric'])} changes by"
    return f"The training time to {name_metric(row['metric'])} {row['target']:g} changes by"


def _describe_effect(row: pd.Series) -> str:
    """Name a framework's median effect with its range over the repeats, such as `a -12 % (-13 % to -11 %)`."""
    values = [row[f"effect_{end}"] for end in ("median", "min", "max")]
    median, low, high = (f"{100 * (v - 1):+.3g} %" if row["effect"] == "ratio" else f"{v:+.2g}" for v in values)
    repeats = "one repeat" if row["num_repeats"] == 1 else f"{low} to {high} in {row['num_repeats']} repeats"
    images = f"{name_count(int(row['num_images']), 'image')}, " if pd.notna(row["num_images"]) else ""
    return f"{row['framework']} {median} ({images}{repeats})"


def _describe_order(rows: pd.DataFrame, shown: pd.Series) -> str:
    """Say whether the order of frameworks changes, with the orders of one configuration in which it does."""
    known = rows[rows["order_changes"].notna()].drop_duplicates(CONFIGURATION)
    changed = known[known["order_changes"] != NO]
    if known.empty:
        return ""
    if changed.empty:
        scope = "" if len(known) == 1 else f" in all {len(known)} configurations"
        return f"; the order of frameworks stays the same{scope}"
    same = changed[(changed[CONFIGURATION] == shown[CONFIGURATION]).all(axis=1)]
    row = (same if len(same) else changed).iloc[0]
    scope = "" if len(known) == 1 else f" in {len(changed)} of {len(known)} configurations"
    where = "" if len(same) else f" on {name_count(row['num_gpus'], 'device')}"
    sure = row["order_changes"].removeprefix("yes").removeprefix(", ")
    text = f"; the order of frameworks changes{scope}:{where} {row['unfair_order']} instead of {row['fair_order']}"
    return text + (f" ({sure})" if sure else "")
