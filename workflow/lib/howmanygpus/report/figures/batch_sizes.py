"""Benefit and cost of each global batch: the rate above, and below it the epochs and the images to the target."""

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from howmanygpus.report.figures.helpers.panels import draw_line, write_gains
from howmanygpus.report.metrics import name_metric
from howmanygpus.report.rows import choose_inputs, find_unit, name_count, name_series
from howmanygpus.report.style import (
    SEE_GRID,
    add_headline,
    add_note,
    add_strip,
    choose_styles,
    count_failed,
    darken,
    describe_guess,
    draw_empty_figure,
    label_lines,
    make_panels,
    mark_counts,
    note_rates,
)

TITLE = "What a larger batch buys and costs"
CATEGORY = "Batch size"
TABLES = ("batch_sizes", "runs")
COMPARES = "per_device_batch_size"
RATE = "images_per_s"
TO_TARGET = ("epochs_to_target", "images_to_target")
KNEE, FITS = ("is_knee", "s", 15, 1.6), ("is_largest_that_fits", "|", 30, 2.5)
BOUND = ("is_largest_of_data", "D", 19, 1.6)
"""Column, marker, size and line width of the marks of a batch."""
NOTES = {
    "is_knee": "square: knee, smallest within 5 % of the best rate",
    "is_largest_that_fits": "bar: largest batch that fits",
    "is_largest_of_data": "diamond: largest batch of the data set",
    "noise_scale": "dotted: gradient noise scale",
    "never": "x: only k/n repeats reached it",
}
FAR_FACTOR = 16
"""A noise scale beyond the measured batches by this factor is written instead of drawn."""


def draw(batch_sizes: pd.DataFrame, runs: pd.DataFrame) -> Figure:
    """Draw one column of panels per device count, with one line per series: medians, and bars from min to max."""
    table = choose_inputs(batch_sizes)
    table = table[table.groupby("num_gpus")["num_repeats"].transform("sum") > 0]
    if table.empty:
        return draw_empty_figure(f"No run has completed with a rate; {SEE_GRID}.")
    table = table.assign(series=name_series(table, runs), is_largest_of_data=table["max_limit"] == "data_set")
    table = table.sort_values("global_batch_size")
    styles, counts = choose_styles(table["series"]), sorted(table["num_gpus"].unique())
    unit = find_unit(table)
    rows, guess = {RATE: f"{unit}/s over all devices"}, ""
    if (judged := table[table["num_judged"] > 0])["num_gpus"].nunique() == len(counts):
        first = judged.iloc[0]
        target = f"to test {name_metric(first['metric'])} {first['target']:g}"
        guess = describe_guess(choose_inputs(runs), "quality_metric")
        # Without any batch that reached the target, one quantity says the same as all.
        shown = len(TO_TARGET) if judged["images_to_target_median"].notna().any() else 1
        quantities = dict(zip(TO_TARGET, ("epochs", unit), strict=True))
        rows |= {name: f"{quantities[name]} {target}" for name in TO_TARGET[:shown]}
    titles = [name_count(count, "device") + guess * (name != RATE) for name in rows for count in counts]
    figure, panels = make_panels(titles, max_columns=len(counts))
    places = [(name, count) for name in rows for count in counts]
    for axes, (name, count) in zip(panels, places, strict=True):
        axes.set_xlabel(f"{unit} in a global batch")
        axes.set_ylabel(rows[name])
        configurations = table[table["num_gpus"] == count]
        mark_counts(axes, configurations["global_batch_size"])
        if name == RATE:
            _draw_rates(axes, configurations, styles, 1.08 * table[f"{RATE}_max"].max())
        else:
            # If fewer than half of the repeats never reached the target, the maximum is empty and the median is not.
            most = table[[f"{name}_median", f"{name}_max"]].astype(float).max(axis=None)
            _draw_to_target(axes, configurations, name, styles, most)
    for note in _list_notes(table, len(rows) > 1):
        add_note(panels[-len(counts)], note, is_shared=True)
    note_rates(panels[-len(counts)], table["series"])
    add_headline(figure, write_headline(table[table["num_gpus"] == counts[-1]], unit))
    return figure


def write_headline(rows: pd.DataFrame, unit: str) -> str:
    """Return by how much rate and images to the target grow from the smallest to the largest batch.

    rows: of one number of devices. Empty if they have one batch.
    """
    rated = rows[rows["num_repeats"] > 0]
    sizes = [rated["global_batch_size"].min(), rated["global_batch_size"].max()]
    if sizes[0] == sizes[1]:
        return ""
    first, last = (
        rated[rated["global_batch_size"] == size].drop_duplicates("series").set_index("series") for size in sizes
    )
    names = {RATE: "rate", TO_TARGET[1]: f"{unit} to the target"}
    gains = {
        words: last[f"{name}_median"].astype(float) / first[f"{name}_median"].astype(float)
        for name, words in names.items()
    }
    told = [f"{words} {write_gains(gain)}" for words, gain in gains.items() if gain.notna().any()]
    devices = name_count(rows["num_gpus"].iloc[0], "device")
    return f"From batches of {sizes[0]} to {sizes[1]}, on {devices}: {'; '.join(told)}" if told else ""


def _list_notes(table: pd.DataFrame, has_target: bool) -> list[str]:
    """Return the notes that explain the figure's marks, once, below its first column."""
    never = has_target & _is_tried(table) & table["images_to_target_median"].isna()
    noise = has_target & table["noise_scale"].notna()
    seen = {name: table[name].astype(bool) & (table["num_repeats"] > 0) for name, *_ in (KNEE, FITS, BOUND)}
    seen |= {"noise_scale": noise, "never": never}
    return [NOTES[name] for name, rows in seen.items() if rows.any()]


def _is_tried(configurations: pd.DataFrame) -> pd.Series:
    """Return whether each batch was tried for the target. A batch that ran out of memory was not."""
    return (configurations["num_judged"] > 0) & (
        (configurations["num_reached"] > 0) | (configurations["num_out_of_memory"] == 0)
    )


def _draw_rates(axes: Axes, configurations: pd.DataFrame, styles: dict, top: float) -> None:
    axes.set_ylim(0, top)
    ends = {}
    for series, line in configurations[configurations["num_repeats"] > 0].groupby("series"):
        colour = styles[series]["color"]
        sizes, median = _draw_line(axes, line, RATE, styles[series], top)
        count_failed(axes, sizes, median, line["num_repeats"], line["num_failed"], colour)
        ends[series] = (sizes.iloc[-1], median.iloc[-1], colour)
    label_lines(axes, ends)


def _draw_to_target(axes: Axes, configurations: pd.DataFrame, name: str, styles: dict, most: float) -> None:
    """Draw the cost of reaching the target by batch, crosses for batches that never did, and the noise scale."""
    top = 1.3 * most if pd.notna(most) else 1.0
    axes.set_ylim(0, top)
    ends = {}
    tried = configurations[_is_tried(configurations)]
    missed = tried.loc[tried[f"{name}_median"].isna(), "series"].unique()
    heights = dict(zip(missed, add_strip(axes, len(missed), is_above=True) if len(missed) else [], strict=True))
    if pd.isna(most):
        axes.set_yticks([])
    for series, line in tried.groupby("series"):
        colour, height = styles[series]["color"], heights.get(series, top)
        reached, never = line[line[f"{name}_median"].notna()], line[line[f"{name}_median"].isna()]
        _draw_line(axes, reached, name, styles[series], top)
        axes.plot(never["global_batch_size"], [height] * len(never), "x", color=colour, markersize=8, markeredgewidth=2)
        last = line.iloc[-1]
        for configuration in never[never["global_batch_size"] < last["global_batch_size"]].itertuples():
            place = (configuration.global_batch_size, height)
            axes.annotate(
                _count(configuration),
                place,
                (7, 0),
                textcoords="offset points",
                color=darken(colour),
                fontsize=9,
                va="center",
            )
        if pd.isna(last[f"{name}_median"]):
            ends[f"{_count(last)}  {series}"] = (last["global_batch_size"], height, colour)
        else:
            ends[series] = (last["global_batch_size"], last[f"{name}_median"], colour)
    _draw_noise(axes, configurations, styles)
    label_lines(axes, ends)


def _draw_line(axes: Axes, line: pd.DataFrame, name: str, style: dict, top: float) -> tuple[pd.Series, pd.Series]:
    """Draw one series with its knee and its largest batch; return the global batches and the medians."""
    sizes, median = line["global_batch_size"], line[f"{name}_median"]
    most = line[f"{name}_max"].fillna(top).clip(upper=top)
    draw_line(axes, sizes, median, (line[f"{name}_min"], most), line["num_disturbed"] > 0, style)
    for column, marker, size, width in (KNEE, FITS, BOUND) if name == RATE else (FITS, BOUND):
        chosen = line[column].astype(bool) & median.notna()
        look = {"markersize": size, "markerfacecolor": "none", "markeredgewidth": width, "color": style["color"]}
        axes.plot(sizes[chosen], median[chosen], marker, linestyle="none", **look)
    return sizes, median


def _draw_noise(axes: Axes, configurations: pd.DataFrame, styles: dict) -> None:
    """Draw the median noise scale of each series; write it instead if it is far from the measured batches."""
    low, high = axes.get_xlim()
    for series, line in configurations[configurations["noise_scale"].notna()].groupby("series"):
        scale = line["noise_scale"].median()
        if low / FAR_FACTOR < scale < high * FAR_FACTOR:
            axes.axvline(scale, color=styles[series]["color"], linestyle=":", linewidth=1.5)
            axes.set_xlim(min(axes.get_xlim()[0], scale / 1.25), max(axes.get_xlim()[1], scale * 1.25))
        else:
            add_note(axes, f"gradient noise scale of {series}: {scale:.2g} {find_unit(line)}")


def _count(configuration: Any) -> str:
    """Return the repeats that reached the target and all repeats, as text."""
    return f"{configuration.num_reached}/{configuration.num_judged}"
