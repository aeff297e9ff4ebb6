"""What unfair protocols of published studies change, which no ranking contains."""

import pandas as pd

from howmanygpus.report.inputs import choose_inputs
from howmanygpus.report.metrics import name_metric
from howmanygpus.report.published.protocols import WORDS
from howmanygpus.report.tables.protocols import CELL, NO, QUALITY, RATE

MOST_FRAMEWORKS = 8


def describe_protocols(protocols: pd.DataFrame) -> list[str]:
    """Say what each protocol changes in each measure, on the largest device count, and whether the order changes.

    protocols: the table of that name.
    """
    return [
        _describe(choose_inputs(own))
        for protocol in WORDS
        for _, own in protocols[protocols["protocol"] == protocol].groupby("measure", sort=False)
    ]


def _describe(rows: pd.DataFrame) -> str:
    cells = list(rows.groupby(CELL, sort=False))
    _, shown = max(cells, key=lambda cell: (cell[0][CELL.index("num_gpus")], len(cell[1])))
    shown = shown.sort_values("fair_rank", kind="stable")
    first, names = shown.iloc[0], [_describe_effect(row) for _, row in shown.head(MOST_FRAMEWORKS).iterrows()]
    more = [f"and {len(shown) - MOST_FRAMEWORKS} more in protocols.tsv"] if len(shown) > MOST_FRAMEWORKS else []
    plural = "s" if first["num_gpus"] > 1 else ""
    where = (
        f"{first['num_gpus']} {first['device']} device{plural} x {first['per_device_batch_size']} images, "
        f"{first['input']} {first['precision']}"
    )
    text = f"Not comparable: {WORDS[first['protocol']]}; {where}: {_name_measure(first)} {', '.join([*names, *more])}."
    return text + _describe_order(cells, first)


def _name_measure(row: pd.Series) -> str:
    if row["measure"] == RATE:
        return "the rate changes by"
    if row["measure"] == QUALITY:
        scope = f" (of the first {row['num_images']:.0f} test images)" if pd.notna(row["num_images"]) else ""
        return f"the final {name_metric(row['metric'])}{scope} changes by"
    return f"the training time to {name_metric(row['metric'])} {row['target']:g} changes by"


def _describe_effect(row: pd.Series) -> str:
    """Name a framework's median effect with its range over the repeats, such as `a -12 % (-13 % to -11 %)`."""
    values = [row[f"effect_{end}"] for end in ("median", "min", "max")]
    median, low, high = (f"{100 * (v - 1):+.3g} %" if row["effect"] == "ratio" else f"{v:+.2g}" for v in values)
    repeats = "one repeat" if row["num_repeats"] == 1 else f"{low} to {high} in {row['num_repeats']} repeats"
    return f"{row['framework']} {median} ({repeats})"


def _describe_order(cells: list[tuple[tuple, pd.DataFrame]], shown: pd.Series) -> str:
    """Say whether the order of frameworks is another one, with the orders of one configuration in which it is."""
    known = [rows.iloc[0] for _, rows in cells if pd.notna(rows.iloc[0]["order_changes"])]
    changed = [row for row in known if row["order_changes"] != NO]
    if not known:
        return ""
    if not changed:
        scope = "" if len(known) == 1 else f" in all {len(known)} configurations"
        return f" The order of the frameworks stays the same{scope}."
    same = [row for row in changed if (row[CELL] == shown[CELL]).all()]
    row = (same or changed)[0]
    scope = "" if len(known) == 1 else f" in {len(changed)} of {len(known)} configurations"
    where = "" if same else f" on {row['num_gpus']} device{'s' if row['num_gpus'] > 1 else ''}"
    sure = row["order_changes"].removeprefix("yes").removeprefix(", ")
    return (
        f" The order of the frameworks changes{scope}:{where} {row['unfair_order']} instead of {row['fair_order']}"
        f"{f' ({sure})' if sure else ''}."
    )
