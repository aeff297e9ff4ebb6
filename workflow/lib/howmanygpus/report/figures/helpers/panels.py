"""Panels, lines and rows that several figures draw alike."""

from collections.abc import Iterable
from dataclasses import dataclass

import pandas as pd
from matplotlib.axes import Axes

from howmanygpus.report.rows import count_units, find_unit, name_count
from howmanygpus.report.style import (
    STAR_NOTE,
    add_note,
    count_failed,
    draw_repeats,
    mark_disturbed,
    mark_overhead,
    note_batches,
    split_families,
)

SETTING = ["num_gpus", "per_device_batch_size"]
"""What the configurations of a panel have in common."""
FEW_GAINS = 4
"""Most series of which a headline names the gain of each."""
End = tuple[float, float, str]
"""The right end of a line, and its colour."""


@dataclass(frozen=True)
class Panel:
    """Title and rows of a panel.

    others: rows of the other families, which are grey. depth: number of rows of crosses for which it has room.
    """

    title: str
    rows: pd.DataFrame
    others: pd.DataFrame
    depth: int


def list_panels(rows: pd.DataFrame, tables: Iterable[tuple[str, pd.DataFrame, Iterable[str]]]) -> list[list[Panel]]:
    """Return a panel for each table in one block or, if `rows` have many series, in a block of each family.

    tables: title, rows with `series`, and the series that need room for a row of crosses.
    """
    families = [(start, set(own["series"])) for start, own in split_families(rows)]
    blocks: list[list[Panel]] = [[] for _ in families]
    for title, table, missed in tables:
        depth = max(len(own & set(missed)) for _, own in families)
        for block, (start, own) in zip(blocks, families, strict=True):
            is_own = table["series"].isin(own)
            if is_own.any():
                block.append(Panel(f"{start}{title}", table[is_own], table[~is_own], depth))
    return blocks


def list_settings(table: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Return title and rows of each device count and batch, such as `4 devices x 64 images`."""
    return [
        (f"{name_count(num_gpus, 'device')} x {count_units(size, find_unit(rows))}", rows)
        for (num_gpus, size), rows in table.groupby(SETTING)
    ]


def name_rows(rows: pd.DataFrame, names: Iterable[str], varying: Iterable[str]) -> list[str]:
    """Return the name of each row: its own, devices, and whatever varies of the batch and of some columns.

    rows: with `unit`.
    """
    shown = [column for column in varying if rows[column].nunique() > 1]
    has_sizes = rows["per_device_batch_size"].nunique() > 1
    return [
        f"{name}, {name_count(row['num_gpus'], 'device')}"
        + (f" x {count_units(row['per_device_batch_size'], row['unit'])}" if has_sizes else "")
        + "".join(f" {row[column]}" for column in shown)
        for name, (_, row) in zip(names, rows.iterrows(), strict=True)
    ]


def write_gains(gains: pd.Series) -> str:
    """Return factors by series, the largest first: all of a few, else the two largest and the smallest."""
    written = [f"{series} {gain:.2g} x" for series, gain in gains.dropna().sort_values(ascending=False).items()]
    return ", ".join(written if len(written) <= FEW_GAINS else [*written[:2], "...", written[-1]])


def note_machinery(axes: Axes, rows: pd.DataFrame) -> dict[str, str]:
    """Explain stars and batches of a panel by device count. Returns the name of each series with its star."""
    names = mark_overhead(rows)
    axes.set_xlabel("devices")
    if names.keys() != set(names.values()):
        add_note(axes, STAR_NOTE, is_shared=True)
    note_batches(axes, rows)
    return names


def draw_line(
    axes: Axes,
    x: pd.Series,
    y: pd.Series,
    ends: tuple[pd.Series, pd.Series] | None,
    is_disturbed: pd.Series,
    style: dict,
    counts: tuple[pd.Series, pd.Series] | None = None,
    repeats: tuple[pd.Series, pd.Series, pd.Series] | None = None,
) -> None:
    """Draw one series with its marks.

    ends: lower and upper ends of the bars. counts: numbers of repeats that completed and that failed. repeats: place,
    value and whether it is an outlier, of each repeat.
    """
    bars = None if ends is None else [y - ends[0], ends[1] - y]
    axes.errorbar(x, y, yerr=bars, capsize=4, **style)
    if repeats is not None:
        draw_repeats(axes, *repeats, style["color"])
    mark_disturbed(axes, x, y, is_disturbed)
    if counts is not None:
        count_failed(axes, x, y, *counts, style["color"])


def find_end(x: pd.Series, y: pd.Series, style: dict) -> End:
    return x.iloc[-1], y.iloc[-1], style["color"]
