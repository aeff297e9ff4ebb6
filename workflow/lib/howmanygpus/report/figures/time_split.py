"""Where the time of each configuration goes: device-seconds per image, of the whole run and of its measured steps."""

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from howmanygpus.report.rows import choose_inputs, find_unit, name_count, name_one, name_series
from howmanygpus.report.style import GREY, SEE_GRID, add_headline, draw_empty_figure, mark_disturbed
from howmanygpus.report.tables.time_split import PHASES

TITLE = "Where the time goes"
CATEGORY = "Scaling and why"
TABLES = ("time_split",)
NAMES = {
    "startup": ("start-up", "#BBBBBB"),
    "first_step": ("first step", "#8C8C8C"),
    "warmup": ("warm-up", "#DDDDDD"),
    "input_wait": ("input wait", "#D55E00"),
    "steps": ("steps", "#0072B2"),
    "exchange": ("exchange", "#56B4E9"),
    "imbalance": ("imbalance", "#CC79A7"),
    "evaluation": ("evaluation", "#E69F00"),
    "checkpoint": ("checkpoints", "#009E73"),
    "other": ("other", "#000000"),
}
"""Name and colour of each phase. What is in no rate is grey but for evaluation and checkpoints."""
IN_RATES = ("input_wait", "steps", "exchange", "imbalance")
BAR_IN, GAP_IN, MARGIN_IN = 0.19, 0.34, 1.1
"""Height of a bar, of the name above the bars of a series, and of the axis and the names of phases, in inches."""
WIDTH_IN = 9.5
LEGEND_PT = 24
"""Height of the names of the phases above the panels, in points."""
STAR = "*"
STAR_NOTE = "*: steps with exchange"


def draw(time_split: pd.DataFrame) -> Figure:
    """Draw a bar per configuration, grouped by series: left the whole run, right the parts that are in the rate."""
    rows = choose_inputs(time_split)
    if rows.empty:
        return draw_empty_figure(f"No run has completed; {SEE_GRID}.")
    rows = rows.assign(series=name_series(rows)).sort_values(
        ["series", "per_device_batch_size", "num_gpus", "num_nodes"], kind="stable"
    )
    places, height = place_bars(rows)
    figure, (whole, rates) = plt.subplots(
        *(1, 2), figsize=(WIDTH_IN, height + MARGIN_IN), sharey=True, layout="constrained"
    )
    for axes, phases, title in ((whole, PHASES, "whole run"), (rates, IN_RATES, "what is in the rate")):
        draw_bars(axes, rows, places, phases)
        axes.set_title(title, pad=LEGEND_PT)
    whole.set_yticks(places, name_bars(rows))
    whole.tick_params(axis="y", length=0, labelsize=9)
    rates.tick_params(axis="y", length=0)
    whole.set_ylim(height, 0)
    for series, own in rows.assign(place=places).groupby("series", sort=False):
        whole.annotate(series, (0.01, own["place"].min() - BAR_IN), xycoords=whole.get_yaxis_transform(), va="center")
    ends = sum(find_seconds(rows, phase) for phase in PHASES)
    mark_disturbed(whole, 1000 * ends, pd.Series(places, rows.index), rows["num_disturbed"] > 0)
    name_phases(whole, [phase for phase in PHASES if find_seconds(rows, phase).gt(0).any()])
    if rows["steps_include"].notna().any():
        rates.set_xlabel(f"{rates.get_xlabel()}\n{STAR_NOTE}")
    add_headline(figure, write_headline(rows))
    return figure


def write_headline(rows: pd.DataFrame) -> str:
    """Return which part of whole runs is in their rates, and the largest of the other phases by its median."""
    seconds = pd.DataFrame({phase: find_seconds(rows, phase) for phase in PHASES})
    shares = seconds.div(seconds.sum(axis=1), axis=0)
    rated = 100 * shares[[*IN_RATES]].sum(axis=1)
    least, most = f"{rated.min():.0f}", f"{rated.max():.0f}"
    others = shares.drop(columns=[*IN_RATES]).median()
    rest = f"; most of the rest is {NAMES[others.idxmax()][0]}" if others.max() > 0 else ""
    return f"{least if least == most else f'{least} to {most}'} % of the time of a run is in its rate{rest}"


def place_bars(rows: pd.DataFrame) -> tuple[list[float], float]:
    """Return the height of each bar and of the figure, in inches from above. Series are apart by their name."""
    places, height, last = [], 0.0, None
    for series in rows["series"]:
        height += BAR_IN if series == last else BAR_IN + GAP_IN
        places.append(height)
        last = series
    return places, height + BAR_IN


def name_bars(rows: pd.DataFrame) -> list[str]:
    """Return the name of each bar: its devices, and its batch if it varies; a star if exchange is in its steps."""
    sizes = rows["per_device_batch_size"].nunique() > 1
    return [
        name_count(row["num_gpus"], "device")
        + (f" x {row['per_device_batch_size']}" if sizes else "")
        + (f" {STAR}" if pd.notna(row["steps_include"]) else "")
        for _, row in rows.iterrows()
    ]


def find_seconds(rows: pd.DataFrame, phase: str) -> pd.Series:
    """Return the device-seconds per image of a phase; zero if they are part of another phase or below zero."""
    return rows[f"{phase}_device_s_per_image"].astype(float).fillna(0.0).clip(lower=0.0)


def draw_bars(axes: Axes, rows: pd.DataFrame, places: list[float], phases: tuple[str, ...]) -> None:
    """Stack the phases of each configuration, in milliseconds."""
    left = pd.Series(0.0, rows.index)
    for phase in phases:
        milliseconds = 1000 * find_seconds(rows, phase)
        axes.barh(places, milliseconds, height=0.8 * BAR_IN, left=left, color=NAMES[phase][1], label=NAMES[phase][0])
        left += milliseconds
    axes.set_xlim(0, 1.02 * left.max() or 1)
    axes.set_xlabel(f"device-milliseconds per {name_one(find_unit(rows))}")
    axes.grid(axis="x", color=GREY, alpha=0.25, linewidth=0.6)
    axes.set_axisbelow(True)


def name_phases(axes: Axes, phases: list[str]) -> None:
    """Write the names of the phases between the panels and their titles, each in its colour beside a square."""
    figure = axes.get_figure(root=True)
    handles, labels = axes.get_legend_handles_labels()
    by_name = dict(zip(labels, handles, strict=True))
    names = [NAMES[phase][0] for phase in phases]
    figure.legend(
        [by_name[name] for name in names],
        names,
        loc="lower left",
        bbox_to_anchor=(0.0, 1.0),
        bbox_transform=axes.transAxes,
        borderaxespad=0.2,
        ncols=len(names),
        frameon=False,
        handlelength=0.9,
        handletextpad=0.4,
        columnspacing=1.0,
        fontsize=9,
    )
