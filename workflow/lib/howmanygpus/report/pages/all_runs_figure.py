"""
Rates of a study by devices, for the page of all runs: each point is a link to the rows of its configuration.

Lines are thin and names few, because hovering a point says what it is. The script of the page reads the descriptions.
"""

import io
import re
from html import escape

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator

from howmanygpus.report.columns import CONFIGURATION
from howmanygpus.report.rows import count_units, find_unit, name_count, name_series
from howmanygpus.report.style import GREY, choose_styles, label_lines, mark_counts
from howmanygpus.report.words import write_number, write_value

SPREAD = 0.3
"""Part of a doubling by which the series of one device count are spread to each side, so that points are apart."""
LINES = {"weak": "-", "strong": (0, (4, 2))}
FEW, MANY = (1.0, 2.0, 5.0), (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0)
"""Ticks of each decade, for rates of several decades and of one."""
SIZE_IN = (8.5, 4.6)
NAME = 'role="group" aria-label="Rates by devices"'
LINK = re.compile(r'<a xlink:href="#run(\d+)"[^>]*>')


def draw_svg(scaling: pd.DataFrame, rows: list[int]) -> str:
    """Return the figure of a study as SVG for an HTML page; empty if the study has no rate.

    scaling: rows of the table of that name, of one study. rows: for each of them, the row of the page with its first
    repeat.
    """
    measured = scaling.assign(row=rows)[scaling["num_repeats"].to_numpy() > 0]
    if measured.empty:
        return ""
    measured = measured.assign(series=name_series(measured))
    figure = draw(measured)
    text = io.StringIO()
    no_metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    figure.savefig(text, format="svg", bbox_inches="tight", metadata=no_metadata)
    plt.close(figure)
    said = {row["row"]: describe_point(row) for row in measured.to_dict("records")}
    svg = text.getvalue()[text.getvalue().index("<svg") :].replace("<svg ", f"<svg {NAME} ", 1)
    return LINK.sub(lambda link: write_link(int(link[1]), said[int(link[1])]), svg)


def write_link(row: int, text: str) -> str:
    """Return the start of a point's link. matplotlib writes it for files of their own, to open in another window."""
    return f'<a href="#run{row}" role="link" aria-label="{escape(text)}">'


def draw(measured: pd.DataFrame) -> Figure:
    figure, axes = plt.subplots(figsize=SIZE_IN, layout="constrained")
    styles = choose_styles(measured["series"])
    places = place_points(measured)
    ends: dict[str, tuple[float, float, str]] = {}
    for (series, mode, _), line in measured.groupby(["series", "scaling_mode", "fixed_batch_size"], sort=False):
        ordered = line.sort_values("num_gpus")
        x, y = places[ordered.index], ordered["images_per_s_median"]
        axes.plot(x, y, color=styles[series]["color"], linestyle=LINES[mode], linewidth=0.9, alpha=0.6)
        known = ends.get(series, (0.0, 0.0, ""))
        ends[series] = max(known, (x.iloc[-1], y.iloc[-1], styles[series]["color"]))
    points = measured.drop_duplicates(CONFIGURATION)
    for index, point in points.iterrows():
        draw_point(axes, places[index], point, styles[point["series"]])
    mark_counts(axes, measured["num_gpus"])
    axes.set_xlim(places.min() / 1.1, places.max() * 1.1)
    axes.set_yscale("log")
    rates = measured["images_per_s_median"]
    axes.yaxis.set_major_locator(LogLocator(subs=FEW if rates.max() > 10 * rates.min() else MANY))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: write_number(value)))
    axes.yaxis.set_minor_locator(LogLocator(subs=()))
    axes.set_ylabel(f"{find_unit(measured)}/s over all devices")
    axes.set_xlabel("devices")
    if (measured["scaling_mode"] == "strong").any():
        axes.set_xlabel("devices\nsolid: fixed batch per device; dashed: fixed global batch")
    draw_slope(axes, measured)
    label_lines(axes, ends)
    return figure


def place_points(measured: pd.DataFrame) -> pd.Series:
    """Return the place of each row on the axis of devices: the series are side by side around the device count."""
    order = {series: position for position, series in enumerate(sorted(measured["series"].unique()))}
    middle = (len(order) - 1) / 2
    side = measured["series"].map(order).sub(middle) / max(middle, 1)
    return measured["num_gpus"] * 2.0 ** (SPREAD * side)


def draw_point(axes: Axes, x: float, point: pd.Series, style: dict) -> None:
    """Draw a median with its interval as a link to its rows."""
    low, high = point["images_per_s_low"], point["images_per_s_high"]
    if pd.notna(low) and pd.notna(high):
        axes.plot([x, x], [low, high], color=style["color"], linewidth=1.2)
    look = {"color": style["color"], "marker": style["marker"], "edgecolors": "white", "linewidths": 0.5}
    axes.scatter([x], [point["images_per_s_median"]], s=75, zorder=3, urls=[f"#run{point['row']}"], **look)


def draw_slope(axes: Axes, measured: pd.DataFrame) -> None:
    """Draw the slope of ideal scaling below the points: on these axes it is the same for all."""
    counts = sorted(measured["num_gpus"].unique())
    if len(counts) == 1:
        return
    low = 0.8 * measured["images_per_s_median"].min()
    axes.set_ylim(bottom=0.75 * low)
    axes.plot(counts, [low * count / counts[0] for count in counts], color=GREY, linestyle=":", linewidth=1.2, zorder=1)
    axes.annotate("slope of ideal scaling", (counts[0], low), (8, -4), textcoords="offset points", color=GREY, va="top")


def describe_point(row: dict) -> str:
    """Return what hovering a point says. row: one of the table `scaling`, with its `series`."""
    per_s = f"{row['unit']}/s"
    rates = {key: row[f"images_per_s_{key}"] for key in ("median", "low", "high")}
    rate = {key: None if pd.isna(value) else value for key, value in rates.items()}
    num_failed = f", {row['num_failed']} failed" if row["num_failed"] else ""
    disturbed = f", {row['num_disturbed']} disturbed" if row["num_disturbed"] else ""
    return (
        f"{row['series']}, {name_count(row['num_gpus'], 'device')}: {write_value(rate, per_s)}; "
        f"{count_units(row['per_device_batch_size'], row['unit'])} per device, {row['global_batch_size']} in all; "
        f"{row['num_repeats']} of {name_count(row['num_planned'], 'repeat')}{num_failed}{disturbed}"
    )
