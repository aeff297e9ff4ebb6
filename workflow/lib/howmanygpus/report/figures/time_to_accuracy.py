"""Training time to each threshold by device count. Configurations that never reached it are marked at the top."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from howmanygpus.report.metrics import name_metric
from howmanygpus.report.rows import is_real, name_series
from howmanygpus.report.style import (
    SEE_GRID,
    add_note,
    choose_styles,
    describe_guess,
    draw_empty_figure,
    label_lines,
    make_panels,
    mark_counts,
    mark_disturbed,
    note_batches,
    note_rates,
)
from howmanygpus.report.tables.scaling import CURVE
from howmanygpus.report.tables.time_to_accuracy import summarize_time_to_accuracy

TITLE = "Time to accuracy by device count"
CATEGORY = "Time and cost to target"
TABLES = ("time_to_accuracy", "scaling", "runs")


def draw(
    time_to_accuracy: pd.DataFrame,
    scaling: pd.DataFrame,
    runs: pd.DataFrame,
    clock: str = "time_to_accuracy_s",
    label: str = "training time (s)",
) -> Figure:
    """Draw one panel per threshold and scaling curve: medians, and bars from minimum to maximum.

    clock: a clock of the table time_to_accuracy; label: its name on the axis.
    """
    if time_to_accuracy.empty:
        has_completed = (runs["status"] == "completed") & is_real(runs)
        none = "The study has no threshold whose time is counted."
        return draw_empty_figure(none if has_completed.any() else f"No run on real images has completed; {SEE_GRID}.")
    told = ("num_nodes", "num_gpus", "per_device_batch_size", "scaling_mode", "fixed_batch_size", "curve")
    curves = scaling[[*CURVE, *told]]
    summary = summarize_time_to_accuracy(time_to_accuracy, clock).merge(curves)
    summary["is_strong"] = summary["scaling_mode"] == "strong"
    summary = summary.sort_values(["threshold", "is_strong", "fixed_batch_size"], kind="stable")
    summary["series"] = name_series(summary, runs)
    styles = choose_styles(summary["series"])
    panels = list(summary.groupby(["threshold", "curve"], sort=False))
    metric = name_metric(summary["metric"].iloc[0])
    beside = describe_guess(summary)
    titles = [f"test {metric} {threshold:g}{beside}\n{curve}" for (threshold, curve), _ in panels]
    num_curves = summary["curve"].nunique()
    figure, axes = make_panels(titles, max_columns=min(num_curves, 4), panel_size=(3.9, 3.4))
    # If fewer than half of the repeats never reached the threshold, the median is finite and the maximum is not.
    ends = summary[["time_s_median", "time_s_max"]].to_numpy(float)
    top = 1.2 * ends[np.isfinite(ends)].max(initial=0.0) or 1.0
    for panel, (_, rows) in zip(axes, panels, strict=True):
        panel.set_xlabel("devices")
        note_batches(panel, rows)
        note_rates(panel, rows["series"])
        panel.set_ylabel(label)
        draw_panel(panel, rows, styles, top)
    return figure


def draw_panel(axes: Axes, rows: pd.DataFrame, styles: dict, top: float) -> None:
    ends = {}
    step = min(0.09, 0.94 / rows["series"].nunique())
    for position, (series, line) in enumerate(rows.sort_values("num_gpus").groupby("series")):
        style = styles[series]
        never, reached = line[is_never(line)], line[~is_never(line)]
        median, slowest = reached["time_s_median"], reached["time_s_max"].clip(upper=top)
        spread = [median - reached["time_s_min"], slowest - median]
        axes.errorbar(reached["num_gpus"], median, yerr=spread, capsize=4, **style)
        mark_disturbed(axes, reached["num_gpus"], median, reached["num_disturbed"] > 0)
        height = top * (0.97 - step * position)
        axes.plot(never["num_gpus"], [height] * len(never), "x", color=style["color"], markersize=9, markeredgewidth=2)
        last = line.iloc[-1]
        for configuration in never[never["num_gpus"] < last["num_gpus"]].itertuples():
            place = (configuration.num_gpus, height)
            axes.annotate(
                count(configuration),
                place,
                (8, 0),
                "data",
                "offset points",
                color=style["color"],
                fontsize=9,
                va="center",
            )
        if is_never(last):
            ends[f"{count(last)}  {series}"] = (last["num_gpus"], height, style["color"])
        else:
            ends[series] = (last["num_gpus"], last["time_s_median"], style["color"])
    if is_never(rows).any():
        add_note(axes, "x: reached in only k/n repeats")
    mark_counts(axes, rows["num_gpus"])
    axes.set_ylim(0, top)
    label_lines(axes, ends)


def is_never(configurations: Any) -> Any:
    """Whether half or more of the repeats never reached the threshold."""
    return np.isinf(configurations["time_s_median"])


def count(configuration: Any) -> str:
    """Return the repeats that reached the threshold and all repeats, as text."""
    return f"{configuration.num_reached}/{configuration.num_repeats}"
