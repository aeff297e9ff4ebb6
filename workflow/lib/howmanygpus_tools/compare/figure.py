"""The figure of a comparison of two results: the ratio of each framework's rates, and of each configuration's."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from howmanygpus.report.style import GREY, LINE_PT, add_note, get_look, make_panels
from howmanygpus_tools.compare.comparison import Comparison, Ratio

NOTES = (
    "large: all configurations of a framework, with interval; filled: a difference",
    "small: single configurations",
    "grey: relative to the other frameworks, whatever the machine's speed",
)


def draw_ratios(comparison: Comparison) -> Figure:
    """Draw a row for each framework, the slowest at the bottom."""
    rows = sorted(comparison.frameworks, key=lambda each: each.ratio)
    height = 1.6 + 2.2 * LINE_PT / 72 * len(rows)
    figure, (axes,) = make_panels(["Rates of the second result relative to the first"], panel_size=(6.4, height))
    axes.axvline(1, color=GREY, linewidth=0.8)
    for place, row in enumerate(rows):
        draw_row(axes, place, row, [each for each in comparison.configurations if is_of(each, row)])
        if relative := comparison.find_relative(row):
            draw_relative(axes, place + 0.2, relative)
    axes.set_yticks(range(len(rows)), [row.names["framework"] for row in rows])
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.set_xlabel("times as fast as the first result")
    for note in NOTES:
        add_note(axes, note)
    return figure


def is_of(one: Ratio, framework: Ratio) -> bool:
    return one.names["framework"] == framework.names["framework"]


def draw_row(axes: Axes, place: int, row: Ratio, own: list[Ratio]) -> None:
    """Draw a framework's ratio with its interval, if it has one, and those of its configurations below it."""
    colour, marker = get_look(row.names["framework"])
    if np.isfinite(row.low):
        axes.plot([row.low, row.high], [place, place], color=colour)
    face = colour if row.is_difference else "white"
    axes.plot(row.ratio, place, marker=marker, markersize=8, color=colour, markerfacecolor=face)
    axes.plot([each.ratio for each in own], [place - 0.28] * len(own), ".", color=colour, markersize=4)


def draw_relative(axes: Axes, place: float, ratio: Ratio) -> None:
    if np.isfinite(ratio.low):
        axes.plot([ratio.low, ratio.high], [place, place], color=GREY, linewidth=0.8)
    face = GREY if ratio.is_difference else "white"
    axes.plot(ratio.ratio, place, marker="D", markersize=4, color=GREY, markerfacecolor=face)
