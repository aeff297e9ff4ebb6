"""Training loss over the first epoch: the lines of frameworks that do the same work coincide."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from howmanygpus.report.figures.helpers.panels import list_settings
from howmanygpus.report.rows import is_real, name_real_run, name_series
from howmanygpus.report.style import (
    SEE_GRID,
    choose_styles,
    draw_empty_figure,
    label_lines,
    make_panels,
    mark_disturbed,
    note_left_out,
    thin,
)

TITLE = "Training loss over the first epoch"
CATEGORY = "The same work?"
TABLES = ("losses",)
MAX_LINE_WIDTH = 9.0
"""Width of the first line in points. Each later line is narrower, so that lines that coincide can all be seen."""


def draw(losses: pd.DataFrame) -> Figure:
    """Draw one panel per device count and batch size, with one line per series, of the first repeat."""
    real = losses[is_real(losses) & losses["loss"].notna()]
    real = real[real["repeat"] == real["repeat"].min()]
    if real.empty:
        return draw_empty_figure(f"No {name_real_run(losses)} has recorded its first epoch; {SEE_GRID}.")
    real = real.assign(series=name_series(real))
    styles = choose_styles(real["series"])
    settings = list_settings(real)
    panels = thin(settings)
    figure, axes = make_panels([title for title, _ in panels])
    for panel, (_, rows) in zip(axes, panels, strict=True):
        panel.set_ylim(0, 1.08 * real["loss"].max())
        draw_losses(panel, rows, styles)
    note_left_out(axes[0], len(settings) - len(panels), "losses")
    return figure


def draw_losses(axes: Axes, rows: pd.DataFrame, styles: dict) -> None:
    axes.set_xlabel("optimizer step")
    ends, lines = {}, list(rows.sort_values("last_step").groupby("series"))
    for position, (series, line) in enumerate(lines):
        look = {key: styles[series][key] for key in ("color", "linestyle")}
        width = MAX_LINE_WIDTH * (1 - position / len(lines)) + 0.8
        axes.plot(line["last_step"], line["loss"], linewidth=width, **look)
        last = line.iloc[[-1]]
        mark_disturbed(axes, last["last_step"], last["loss"], last["disturbed"].eq(True))
        ends[series] = (line["last_step"].iloc[-1], line["loss"].iloc[-1], styles[series]["color"])
    axes.set_ylabel("training loss, mean of the window")
    label_lines(axes, ends)
