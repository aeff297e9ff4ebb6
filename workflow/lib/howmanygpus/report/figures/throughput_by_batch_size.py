"""Throughput by per-device batch size."""

import pandas as pd
from matplotlib.figure import Figure

from howmanygpus.report.inputs import choose_inputs
from howmanygpus.report.style import label_lines, make_panels, mark_counts, name_series, say_nothing_to_show, style_of

TITLE = "Throughput by batch size"
TABLES = ("runs",)


def draw(runs: pd.DataFrame) -> Figure:
    """Draw one panel per device count, with one line per series: medians, and bars from minimum to maximum."""
    measured = choose_inputs(runs)
    measured = measured[measured["images_per_s"].notna()]
    if measured.empty:
        return say_nothing_to_show("No run has completed yet.")
    measured = measured.assign(series=name_series(measured))
    styles = style_of(measured["series"])
    panels = list(measured.groupby("num_gpus"))
    figure, axes = make_panels([f"{count} device{'s' if count > 1 else ''}" for count, _ in panels])
    for panel, (_, rows) in zip(axes, panels, strict=True):
        ends = {}
        for series, repeats in rows.groupby("series"):
            line = repeats.groupby("per_device_batch_size")["images_per_s"].agg(["median", "min", "max"])
            spread = [line["median"] - line["min"], line["max"] - line["median"]]
            panel.errorbar(line.index, line["median"], yerr=spread, capsize=4, **styles[series])
            ends[series] = (line.index[-1], line["median"].iloc[-1], styles[series]["color"])
        mark_counts(panel, measured["per_device_batch_size"])
        panel.set_ylim(0, 1.08 * measured["images_per_s"].max())
        panel.set_xlabel("images per device and step")
        panel.set_ylabel("images/s over all devices")
        label_lines(panel, ends)
    return figure
