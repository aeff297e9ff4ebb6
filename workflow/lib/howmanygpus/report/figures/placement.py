"""Throughput of the same devices on one node and spread over several."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from howmanygpus.report.figures.helpers.panels import End, draw_line, find_end, list_settings
from howmanygpus.report.rows import choose_inputs, find_unit, name_series
from howmanygpus.report.style import (
    SEE_GRID,
    add_note,
    choose_styles,
    draw_empty_figure,
    label_lines,
    make_panels,
    mark_counts,
)

TITLE = "The same devices on one node and on several"
CATEGORY = "Scaling and why"
TABLES = ("placement",)
COMPARES = "num_nodes"
NOTE = "number: rate over that on the fewest nodes"


def draw(placement: pd.DataFrame) -> Figure:
    """Draw one panel per device count and batch size: medians, and bars from minimum to maximum."""
    table = choose_inputs(placement)
    table = table[table["num_repeats"] > 0]
    if not is_spread(table).any():
        return draw_empty_figure(f"No device count has completed on several numbers of nodes; {SEE_GRID}.")
    # The table has one row per number of nodes, but the names of series have no number of nodes.
    table = table.assign(series=name_series(table.assign(placement="")))
    styles = choose_styles(table["series"])
    panels = list_settings(table)
    figure, axes = make_panels([title for title, _ in panels])
    for panel, (_, rows) in zip(axes, panels, strict=True):
        panel.set_xlabel("nodes")
        ends = draw_lines(panel, rows, styles)
        mark_counts(panel, table["num_nodes"])
        panel.set_ylim(0, 1.08 * table["images_per_s_max"].max())
        panel.set_ylabel(f"{find_unit(table)}/s over all devices")
        label_lines(panel, ends)
    return figure


def is_spread(table: pd.DataFrame) -> pd.Series:
    """Whether each row can be compared with the same devices on fewer nodes."""
    return (table["num_nodes"] > table["base_num_nodes"]) & table["rate_of_base"].notna()


def draw_lines(axes: Axes, rows: pd.DataFrame, styles: dict) -> dict[str, End]:
    """Draw the lines; return the end of each by its label: the series, and its rate relative to the fewest nodes."""
    ends = {}
    for series, line in rows.sort_values("num_nodes").groupby("series"):
        bars, counts = (line["images_per_s_min"], line["images_per_s_max"]), (line["num_repeats"], line["num_failed"])
        place, is_disturbed = (line["num_nodes"], line["images_per_s_median"]), line["num_disturbed"] > 0
        ratio = f" {line['rate_of_base'].iloc[-1]:.2f}" if is_spread(line).iloc[-1] else ""
        ends[f"{series}{ratio}"] = find_end(*place, styles[series])
        draw_line(axes, *place, bars, is_disturbed, styles[series], counts)
    if is_spread(rows).any():
        add_note(axes, NOTE)
    return ends
