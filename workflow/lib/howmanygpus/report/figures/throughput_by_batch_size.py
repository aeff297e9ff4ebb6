"""Throughput by per-device batch size."""

import pandas as pd
from matplotlib.figure import Figure

from howmanygpus.report.columns import CONFIGURATION
from howmanygpus.report.figures.helpers.panels import draw_line, find_end, write_gains
from howmanygpus.report.intervals import median_interval
from howmanygpus.report.outcomes import has_failed
from howmanygpus.report.rows import choose_inputs, find_unit, name_count, name_series
from howmanygpus.report.style import (
    SEE_GRID,
    add_headline,
    choose_styles,
    draw_empty_figure,
    label_lines,
    make_panels,
    mark_counts,
    note_left_out,
    thin,
)

TITLE = "Throughput by batch size"
CATEGORY = "Batch size"
TABLES = ("runs",)
COMPARES = "per_device_batch_size"


def draw(runs: pd.DataFrame) -> Figure:
    """Draw one panel per device count, with one line per series: medians with their intervals, and repeats.

    A device count with one batch size has no panel if another one has several.
    """
    runs = runs.assign(failed=has_failed(runs["status"]), disturbed=runs["disturbed"].eq(True))
    measured = choose_inputs(runs)
    measured = measured[measured.groupby(CONFIGURATION)["images_per_s"].transform("count") > 0]
    if measured.empty:
        return draw_empty_figure(f"No run has completed with a rate; {SEE_GRID}.")
    repeats = measured.assign(series=name_series(measured))
    num_sizes = repeats.groupby("num_gpus")["per_device_batch_size"].transform("nunique")
    repeats = repeats[(num_sizes > 1) | (num_sizes.max() == 1)]
    measured = summarize(repeats)
    repeats = repeats[repeats.groupby(CONFIGURATION)["images_per_s"].transform("count") > 1]
    styles = choose_styles(measured["series"])
    counts, unit = list(measured.groupby("num_gpus")), find_unit(runs)
    panels = thin(counts)
    figure, axes = make_panels([name_count(count, "device") for count, _ in panels])
    for panel, (count, rows) in zip(axes, panels, strict=True):
        panel.set_xlabel(f"{unit} per device and step")
        ends = {}
        for series, line in rows.groupby("series"):
            own = repeats[(repeats["series"] == series) & (repeats["num_gpus"] == count)]
            place = line["per_device_batch_size"], line["median"]
            ends[series] = find_end(*place, styles[series])
            draw_line(
                panel,
                *place,
                (line["low"], line["high"]),
                line["disturbed"] > 0,
                styles[series],
                counts=(line["count"], line["failed"]),
                repeats=(own["per_device_batch_size"], own["images_per_s"], own["is_outlier"]),
            )
        mark_counts(panel, measured["per_device_batch_size"])
        panel.set_ylim(0, 1.08 * measured["max"].max())
        panel.set_ylabel(f"{unit}/s over all devices")
        label_lines(panel, ends)
    add_headline(figure, write_headline(panels[-1][1], unit))
    note_left_out(axes[0], len(counts) - len(panels), "batch_sizes")
    return figure


def write_headline(rows: pd.DataFrame, unit: str) -> str:
    """Return by how much the rate grows from the smallest to the largest batch, on the most devices."""
    sizes = rows["per_device_batch_size"].min(), rows["per_device_batch_size"].max()
    if sizes[0] == sizes[1]:
        return ""
    first, last = (rows[rows["per_device_batch_size"] == size].set_index("series")["median"] for size in sizes)
    devices = name_count(rows["num_gpus"].iloc[0], "device")
    return f"Rate from batches of {sizes[0]} to {sizes[1]} {unit} per device, on {devices}: {write_gains(last / first)}"


def summarize(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the rates, their intervals and the numbers of repeats of each configuration."""
    configurations = runs.groupby(["num_gpus", "series", "per_device_batch_size"])
    table = configurations["images_per_s"].agg(["median", "max", "count"])
    table[["low", "high"]] = [median_interval(rates) for _, rates in configurations["images_per_s"]]
    table = table.join(configurations[["failed", "disturbed"]].sum())
    return table.reset_index()
