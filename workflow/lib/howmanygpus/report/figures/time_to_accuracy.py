"""Training time to each threshold by device count. Configurations that did not reach it are above the scale."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from howmanygpus.report.columns import CURVE, LINE
from howmanygpus.report.figures.helpers.panels import Panel, draw_line, list_panels
from howmanygpus.report.figures.helpers.predicted import draw_bands, list_brackets
from howmanygpus.report.metrics import name_metric
from howmanygpus.report.rows import is_real, leave_out_repeated, name_count, name_real_run, name_series
from howmanygpus.report.style import (
    SEE_GRID,
    add_headline,
    add_note,
    add_strip,
    arrange,
    choose_styles,
    darken,
    describe_guess,
    draw_empty_figure,
    draw_in_grey,
    has_families,
    label_lines,
    make_panels,
    mark_counts,
    note_batches,
    note_left_out,
    note_rates,
    thin_blocks,
)
from howmanygpus.report.thresholds import summarize_time_to_accuracy

TITLE = "Time to accuracy by device count"
CATEGORY = "Time and price"
TABLES = ("time_to_accuracy", "scaling", "runs")
SHOWS_PREDICTED = True
SEEN = ("num_gpus", "num_repeats", "num_reached", "num_disturbed", "time_s_median", "time_s_min", "time_s_max")
"""What a panel shows of a configuration."""


def draw(
    time_to_accuracy: pd.DataFrame,
    scaling: pd.DataFrame,
    runs: pd.DataFrame,
    clock: str = "time_to_accuracy_s",
    label: str = "training time (s)",
    predictions: pd.DataFrame | None = None,
) -> Figure:
    """Draw one panel per scaling curve and threshold that was reached: medians, and bars from minimum to maximum.

    A curve with many series has a row of panels for each family of frameworks, with the others in grey.

    clock: a clock of the table time_to_accuracy; label: its name on the axis. predictions: with brackets of the
    training time until one threshold, which are drawn in the panel of this threshold.
    """
    if time_to_accuracy.empty:
        has_completed = (runs["status"] == "completed") & is_real(runs)
        none = "The study has no threshold whose time is counted."
        return draw_empty_figure(
            none if has_completed.any() else f"No {name_real_run(runs)} has completed; {SEE_GRID}."
        )
    told = ("num_nodes", "num_gpus", "per_device_batch_size", "scaling_mode", "fixed_batch_size", "curve")
    curves = scaling[[*CURVE, *told]]
    summary = summarize_time_to_accuracy(time_to_accuracy, clock).merge(curves)
    summary["is_strong"] = summary["scaling_mode"] == "strong"
    summary = summary.sort_values(["threshold", "is_strong", "fixed_batch_size"], kind="stable")
    summary["series"] = name_series(summary, runs)
    summary = leave_out_repeated(summary, "threshold")
    styles = choose_styles(summary["series"])
    metric, beside = name_metric(summary["metric"].iloc[0]), describe_guess(summary)
    reached = summary.groupby(["curve", "threshold"])["time_s_median"].transform("min") < np.inf
    if not reached.any():
        thresholds = join([f"{threshold:g}" for threshold in sorted(summary["threshold"].unique())], "or")
        return draw_empty_figure(f"No configuration reached test {metric} {thresholds} in most repeats.")
    blocks, left_out = thin_blocks(list_blocks(summary[reached], f"test {metric}", beside), has_families(summary))
    columns, placed = arrange(blocks)
    shown = [panel for panel in placed if panel]
    figure, axes = make_panels([panel.title if panel else None for panel in placed], max_columns=columns)
    add_headline(figure, write_headline(summary[reached], metric))
    # If fewer than half of the repeats never reached the threshold, the median is finite and the maximum is not.
    ends = summary[["time_s_median", "time_s_max"]].to_numpy(float)
    brackets = list_brackets(predictions, "time_to_accuracy_s")
    top = 1.2 * max(ends[np.isfinite(ends)].max(initial=0.0), brackets["high"].max() if len(brackets) else 0.0) or 1.0
    for panel, drawn in zip(axes, shown, strict=True):
        panel.set_xlabel("devices")
        note_batches(panel, drawn.rows)
        note_rates(panel, drawn.rows["series"])
        panel.set_ylabel(label)
        draw_in_grey(panel, drawn.others[~is_never(drawn.others)], "num_gpus", "time_s_median")
        own = brackets[brackets["threshold"].isin(drawn.rows["shared"].iloc[0])].merge(
            drawn.rows[LINE].drop_duplicates()
        )
        mark_counts(panel, [*drawn.rows["num_gpus"], *drawn.others["num_gpus"], *own["num_gpus"]])
        draw_times(panel, drawn, styles, top, own)
    note_unreached(axes, shown, summary[~reached], metric)
    note_left_out(axes[0], left_out, "time_to_accuracy")
    return figure


def write_headline(reached: pd.DataFrame, metric: str) -> str:
    """Return which configuration reached the hardest threshold first, by its median."""
    hardest = reached[reached["threshold"] == reached["threshold"].max()]
    best = hardest.loc[hardest["time_s_median"].idxmin()]
    devices = name_count(best["num_gpus"], "device")
    return f"Soonest to {metric} {best['threshold']:g}: {best['time_s_median']:.3g} s, {best['series']} on {devices}"


def list_blocks(summary: pd.DataFrame, quality: str, beside: str) -> list[list[Panel]]:
    """Return the panels of each scaling curve and, if it has many series, of each family of frameworks.

    Thresholds that were reached by the same evaluations share a panel; the column `shared` of its rows has them.
    quality, beside: written before and after the thresholds in titles.
    """
    blocks: list[list[Panel]] = []
    for curve, of_curve in summary.groupby("curve", sort=False):
        shown: dict[tuple, tuple[list[float], pd.DataFrame]] = {}
        for threshold, rows in of_curve.groupby("threshold"):
            seen = rows[["series", *SEEN]].itertuples(index=False, name=None)
            shown.setdefault(tuple(seen), ([], rows))[0].append(threshold)
        tables = [
            (
                f"{quality} {join([f'{each:g}' for each in thresholds])}{beside}\n{curve}",
                rows.assign(shared=[thresholds] * len(rows)),
                rows.loc[is_never(rows), "series"],
            )
            for thresholds, rows in shown.values()
        ]
        blocks += list_panels(of_curve, tables)
    return blocks


def note_unreached(axes: list[Axes], shown: list[Panel], unreached: pd.DataFrame, metric: str) -> None:
    """Write the thresholds of each curve that have no panel below the first panel of the curve, else of the figure."""
    curves = [panel.rows["curve"].iloc[0] for panel in shown]
    for curve, rows in unreached.groupby("curve", sort=False):
        thresholds = join([f"{threshold:g}" for threshold in sorted(rows["threshold"].unique())])
        where = "" if curve in curves else f"{curve}:\n"
        place = axes[curves.index(curve)] if curve in curves else axes[0]
        add_note(place, f"{where}{metric} {thresholds}: reached by no configuration\nin most repeats")


def join(words: list[str], last: str = "and") -> str:
    return ", ".join(words[:-1]) + f" {last} " * (len(words) > 1) + words[-1]


def draw_times(axes: Axes, panel: Panel, styles: dict, top: float, brackets: pd.DataFrame) -> None:
    """Draw times to a threshold, and crosses above their scale for device counts that did not reach it."""
    rows, ends = panel.rows, {}
    axes.set_ylim(0, top)
    missed = rows.loc[is_never(rows), "series"].sort_values().unique()
    heights = dict(zip(missed, add_strip(axes, panel.depth, is_above=True) if panel.depth else [], strict=False))
    for series, line in rows.sort_values("num_gpus").groupby("series"):
        style = styles[series]
        never, reached = line[is_never(line)], line[~is_never(line)]
        bars = reached["time_s_min"], reached["time_s_max"].clip(upper=top)
        draw_line(axes, reached["num_gpus"], reached["time_s_median"], bars, reached["num_disturbed"] > 0, style)
        last = line.iloc[-1]
        if is_never(last):
            ends[f"{count(last)}  {series}"] = (last["num_gpus"], heights[series], style["color"])
        else:
            ends[series] = (last["num_gpus"], last["time_s_median"], style["color"])
        if never.empty:
            continue
        height, look = heights[series], {"markersize": 8, "markeredgewidth": 2, "color": style["color"]}
        axes.plot(never["num_gpus"], [height] * len(never), "x", **look)
        for configuration in never[never["num_gpus"] < last["num_gpus"]].itertuples():
            look = {"color": darken(style["color"]), "fontsize": 9, "va": "center"}
            place = (configuration.num_gpus, height)
            axes.annotate(count(configuration), place, (8, 0), textcoords="offset points", **look)
    if len(missed):
        add_note(axes, "x: only k/n repeats reached it", is_shared=True)
    label_lines(axes, ends | draw_bands(axes, rows, "time_s_median", brackets, styles))


def is_never(configurations: Any) -> Any:
    """Whether half or more of the repeats never reached the threshold."""
    return np.isinf(configurations["time_s_median"])


def count(configuration: Any) -> str:
    """Return the repeats that reached the threshold and all repeats, as text."""
    return f"{configuration.num_reached}/{configuration.num_repeats}"
