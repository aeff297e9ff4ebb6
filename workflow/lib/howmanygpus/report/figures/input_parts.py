"""The parts of the input from the disk to the device: the rate of each alone, and end to end."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, NullFormatter

from howmanygpus.report.columns import BATCH, PLACE, SERIES, list_columns
from howmanygpus.report.rows import name_count
from howmanygpus.report.style import COLOURS, GREY, SEE_GRID, draw_empty_figure, make_panels, mark_disturbed
from howmanygpus.report.tables.input_parts import COPY, END_TO_END, LOAD, TRAIN

TITLE = "From the disk to the device, part by part"
CATEGORY = "Scaling and why"
TABLES = ("input_parts",)
COMPARES = "inputs"
FORMS = ("png", "jpeg", "arrays", "synthetic")
"""Inputs in the order of the work that they give the loader, most first."""
LOADS = {"png": "read and decode PNG", "jpeg": "read and decode JPEG", "arrays": "read arrays"}
LOADS |= {"synthetic": "read random images"}
NAMES = {(LOAD, form): name for form, name in LOADS.items()}
NAMES |= {(COPY, ""): "copy to the device", (TRAIN, "resident"): "train, images on the device"}
NAMES |= {(END_TO_END, form): f"end to end: {form}" for form in FORMS}
"""Name of each row, from the disk to the device, and then all parts together."""
MARKERS = "osD^vPX*"
SPREAD = 0.55
"""Part of a row over which the marks of variants are spread."""
ROW_IN, LEAST_IN = 0.34, 1.3
"""Height of a row, and of a panel without its rows, in inches."""


def draw(input_parts: pd.DataFrame) -> Figure:
    """Draw one panel per framework, device count and batch, with one row per part and a mark for each variant."""
    table = input_parts.assign(row=name_parts(input_parts))
    table = table[table["row"].notna()]
    if table.empty:
        return draw_empty_figure(f"No run has completed; {SEE_GRID}.")
    keys = list_columns(SERIES, PLACE, BATCH, but=["variant", "input", "global_batch_size"])
    panels = list(table.groupby(keys, sort=False))
    shown = [name for name in NAMES.values() if name in set(table["row"])]
    titles = [f"{key[0]}, {name_count(key[-2], 'device')} x {name_count(key[-1], 'image')}" for key, _ in panels]
    figure, axes = make_panels(titles, panel_size=(5.6, LEAST_IN + ROW_IN * len(shown)), max_columns=2)
    variants = list(dict.fromkeys(table["variant"]))
    for panel, (_, rows) in zip(axes, panels, strict=True):
        draw_parts(panel, rows, shown, variants)
        panel.set_xlim(0.6 * table["images_per_s_min"].min(), 1.7 * table["images_per_s_max"].max())
    if len(variants) > 1:
        lines = {line.get_label(): line for panel in axes for line in panel.lines}
        figure.legend([lines[name] for name in variants], variants, loc="outside upper left", ncols=5, frameon=False)
    return figure


def name_parts(table: pd.DataFrame) -> list[str | None]:
    pairs = zip(table["part"], table["input"].fillna(""), strict=True)
    return [NAMES.get((part, given)) for part, given in pairs]


def draw_parts(axes: Axes, rows: pd.DataFrame, shown: list[str], variants: list[str]) -> None:
    """Draw the rates. The first variant is filled, and has its numbers beside it."""
    axes.set_xlabel("images/s over all devices")
    heights = {name: place for place, name in enumerate(shown)}
    for number, (variant, own) in enumerate((name, rows[rows["variant"] == name]) for name in variants):
        if own.empty:
            continue
        is_first = number == 0
        colour, marker = COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]
        y = own["row"].map(heights) + SPREAD * ((number + 0.5) / len(variants) - 0.5)
        filled = {} if is_first else {"markerfacecolor": "none"}
        size, order = (9, 3) if is_first else (7, 4)
        axes.plot(
            own["images_per_s_median"], y, marker, color=colour, label=variant, markersize=size, zorder=order, **filled
        )
        axes.hlines(y, own["images_per_s_min"], own["images_per_s_max"], color=colour, linewidth=1.5)
        mark_disturbed(axes, own["images_per_s_median"], y, own["num_disturbed"] > 0)
    write_rates(axes, rows[rows["variant"] == variants[0]], heights)
    parts = [place for name, place in heights.items() if not name.startswith("end to end")]
    if parts and len(parts) < len(shown):
        axes.axhline(max(parts) + 0.5, color=GREY, linewidth=0.8)
    axes.set_yticks(list(heights.values()), list(heights))
    axes.set_ylim(len(shown) - 0.5, -0.5)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.grid(axis="x", color=GREY, alpha=0.3, linewidth=0.6)


def write_rates(axes: Axes, rows: pd.DataFrame, heights: dict[str, int]) -> None:
    """Write the rates of the first variant beside the panel, to three digits."""
    for name, rate in zip(rows["row"], rows["images_per_s_median"], strict=True):
        text = f"{float(f'{rate:.3g}'):,.10g}"
        place = {"xy": (1.02, heights[name]), "xycoords": axes.get_yaxis_transform()}
        axes.annotate(text, **place, va="center", fontsize=9, color=COLOURS[0])
