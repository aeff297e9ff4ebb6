"""
Rows of tables: the names of series, wording that several tables share, and joining tables of several studies.

A series is a line of a figure: a framework with its variant, input, precision and device. Rates on random images are
upper bounds, which answers and figures keep apart from those on real images. Tables are joined as texts.
"""

from pathlib import Path

import pandas as pd

from howmanygpus.measure.spec import RANDOM_INPUTS, RESIDENT
from howmanygpus.report.columns import SERIES, list_columns
from howmanygpus.report.files import read_texts, write_table

IMAGES = "images"
"""What studies without a program count."""


def name_count(count: int, noun: str) -> str:
    """Write a number of things, such as `1 device` and `64 devices`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def find_unit(table: pd.DataFrame) -> str:
    """Return what the batches and rates of a table count, such as `tokens`; `images or tokens` if studies differ."""
    return " or ".join(table["unit"].unique())


def count_units(count: int, unit: str) -> str:
    """Write a batch, such as `1 image` and, of what a program counts, `64 tokens a step`. unit: the plural."""
    return f"{count} {name_one(unit) if count == 1 else unit}{'' if unit == IMAGES else ' a step'}"


def name_one(unit: str) -> str:
    """Return the singular of a unit. A word without the s of a plural stays as it is."""
    return unit.removesuffix("s")


DAGGER = "\N{DAGGER}"
"""Suffix of the name of a series whose framework has its own learning rates."""


def name_series(table: pd.DataFrame, runs: pd.DataFrame | None = None) -> pd.Series:
    """Return the name of each row's line: its framework, and variant, input, precision, device, placement if they vary.

    runs: the table of that name, if daggers are to mark frameworks with their own learning rates.
    """
    columns = [*list_columns(SERIES, but=["framework"]), "placement"]
    varying = [column for column in columns if table[column].nunique() > 1]
    parts = zip(*(table[column].astype(str) for column in ("framework", *varying)), strict=True)
    names = pd.Series(map(" ".join, parts), table.index, dtype=str)
    return names if runs is None or table.empty else names.mask(has_own_rates(table, runs), names + f" {DAGGER}")


def describe_own_rates(config: dict, framework: str, variant: str) -> str | None:
    """Return a framework's own learning-rate settings, such as `lr_scaling none`; None if it has those of its study.

    config: that of the study.
    """
    own = config["variants"].get(variant, {}).get("optimizer", {})
    optimizer = config["optimizer"] | own
    rates = optimizer["by_framework"].get(framework, {})
    different = [f"{key} {value}" for key, value in rates.items() if value != optimizer[key]]
    return ", ".join(different) or None


def name_own_rates(runs: pd.DataFrame) -> str:
    """Name the frameworks with their own learning rates; empty if all have the same. runs: the table of that name."""
    own = _select_own_rates(runs).drop_duplicates(["framework", "own_rates"])
    return "; ".join(f"{row['framework']} ({row['own_rates']})" for _, row in own.iterrows())


def has_own_rates(table: pd.DataFrame, runs: pd.DataFrame) -> pd.Series:
    """Return whether each row's framework has its own learning rates. runs: the table of that name of the study."""
    own = _select_own_rates(runs)
    cells = set(zip(own["framework"], own["variant"], strict=True))
    rows = zip(table["framework"], table["variant"], strict=True)
    return pd.Series([row in cells for row in rows], table.index, dtype=bool)


def _select_own_rates(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the runs of frameworks with their own learning rates; none if all frameworks have the same."""
    rates = runs.assign(own_rates=runs["own_rates"].astype(object).fillna(""))
    return rates[(rates["own_rates"] != "") & (rates["own_rates"].nunique() > 1)]


RECORD = "record"
"""Column with the name of a record that several studies may share."""


def merge_tables(parts: list[Path], table: Path) -> None:
    """Write the rows of all parts, whose values stay as they are.

    A record that serves all studies alike has one row, and one that belongs to studies has a row for each.
    """
    merged = pd.concat(map(read_texts, parts), ignore_index=True).fillna("")
    if RECORD in merged:
        merged = merged.drop_duplicates([name for name in (RECORD, "study") if name in merged], keep="last")
    write_table(table, merged)


def leave_out_repeated(rows: pd.DataFrame, *more: str) -> pd.DataFrame:
    """Return the rows without those of a curve on one device count that a curve on several shows, too.

    rows: a row for each configuration of each scaling curve, with `series`, and for each value of the columns `more`.
    """
    own = ["series", "num_nodes", "num_gpus", "per_device_batch_size", *more]
    is_single = rows.groupby("curve")["num_gpus"].transform("nunique") == 1
    shown = pd.MultiIndex.from_frame(rows.loc[~is_single, own])
    return rows[~(is_single & pd.MultiIndex.from_frame(rows[own]).isin(shown))]


def is_real(table: pd.DataFrame) -> pd.Series:
    """Whether each row of a table with a column `input` is about real images."""
    return ~table["input"].isin(RANDOM_INPUTS)


def choose_inputs(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows on real images.

    Without any, return the rows on synthetic input, and without those the rows on resident input.
    """
    for left_out in (RANDOM_INPUTS, (RESIDENT,)):
        chosen = table[~table["input"].isin(left_out)]
        if len(chosen):
            return chosen
    return table


PROGRAM = "program"
"""Input of the runs of a user's own program, which alone knows its data."""


def is_program(table: pd.DataFrame) -> bool:
    """Whether the rows of a study are about a user's own program."""
    return bool((table["input"] == PROGRAM).all())


def name_real_run(table: pd.DataFrame) -> str:
    """Return what figures about real images call a run, for the sentence that there is none."""
    return "run" if is_program(table) else "run on real images"
