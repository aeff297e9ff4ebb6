"""How long steps take: percentiles for each configuration, because a mean hides rare slow steps."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from howmanygpus.report.figures.helpers.panels import list_settings
from howmanygpus.report.rows import choose_inputs, name_series
from howmanygpus.report.style import (
    SEE_GRID,
    add_note,
    choose_styles,
    draw_empty_figure,
    make_panels,
    mark_disturbed,
    note_left_out,
    thin,
)
from howmanygpus.report.tables.step_times import PERCENTILES

TITLE = "Percentiles of the step times"
CATEGORY = "More"
TABLES = ("step_times",)
MS = 1000
NOTE = "white: median, thick: 25 to 75 %, thin: 5 to 95 %, tick: 99 %"
ROW_IN, LEAST_IN = 0.3, 1.5
"""Height of a row, and of a panel without its rows, in inches."""


def draw(step_times: pd.DataFrame) -> Figure:
    """Draw one panel per device count and batch size, with one row per series: medians over the repeats."""
    table = choose_inputs(step_times)
    if table.empty:
        return draw_empty_figure(f"No run has recorded its steps; {SEE_GRID}.")
    table = table.assign(series=name_series(table), disturbed=table["disturbed"].eq(True))
    settings = list_settings(table)
    panels = thin(settings)
    most_rows = max(rows["series"].nunique() for _, rows in panels)
    figure, axes = make_panels(
        [title for title, _ in panels], panel_size=(5.2, LEAST_IN + ROW_IN * most_rows), max_columns=2
    )
    styles = choose_styles(table["series"])
    for panel, (_, rows) in zip(axes, panels, strict=True):
        draw_percentiles(panel, rows, styles)
    add_note(axes[0], NOTE, is_shared=True)
    note_left_out(axes[0], len(settings) - len(panels), "step_times")
    return figure


def draw_percentiles(axes: Axes, rows: pd.DataFrame, styles: dict) -> None:
    """Draw a thin line from the 5th to the 95th percentile, a thick one from the 25th to the 75th, and the median."""
    axes.set_xlabel("ms per step")
    steps = MS * rows.groupby("series")[list(PERCENTILES)].median()
    heights = pd.Series(range(len(steps)), steps.index)
    for series, row in steps.iterrows():
        colour, height = styles[series]["color"], heights[series]
        axes.plot(row[["step_s_p05", "step_s_p95"]], [height] * 2, color=colour, linewidth=1.2)
        axes.plot(row[["step_s_p25", "step_s_p75"]], [height] * 2, color=colour, linewidth=6, solid_capstyle="butt")
        axes.plot(row["step_s_p50"], height, "|", color="white", markersize=9, markeredgewidth=1.5)
        axes.plot(row["step_s_p99"], height, "|", color=colour, markersize=9, markeredgewidth=1.5)
    is_disturbed = rows.groupby("series")["disturbed"].any()
    mark_disturbed(axes, steps["step_s_p50"], heights, is_disturbed)
    axes.set_yticks(heights, steps.index)
    axes.set_ylim(len(steps) - 0.5, -0.5)
    axes.set_xlim(0, 1.06 * steps["step_s_p99"].max())
