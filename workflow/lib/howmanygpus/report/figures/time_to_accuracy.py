"""Training time to each threshold by device count. Configurations that did not reach it are above the scale."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from howmanygpus.report.metrics import name_metric
from howmanygpus.report.rows import is_real, name_real_run, name_series
from howmanygpus.report.style import (
    SEE_GRID,
    add_note,
    add_strip,
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
SEEN = ("num_gpus", "num_repeats", "num_reached", "num_disturbed", "time_s_median", "time_s_min", "time_s_max")
"""What a panel shows of a configuration."""


def draw(
    time_to_accuracy: pd.DataFrame,
    scaling: pd.DataFrame,
    runs: pd.DataFrame,
    clock: str = "time_to_accuracy_s",
    label: str = "training time (s)",
) -> Figure:
    """Draw one panel per scaling curve and threshold that was reached: medians, and bars from minimum to maximum.

    clock: a clock of the table time_to_accuracy; label: its name on the axis.
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
    styles = choose_styles(summary["series"])
    panels, unreached = list_panels(summary)
    metric, beside = name_metric(summary["metric"].iloc[0]), describe_guess(summary)
    titles = [f"test {metric} {thresholds}{beside}\n{rows['curve'].iloc[0]}" for thresholds, rows in panels]
    figure, axes = make_panels(titles, max_columns=min(count_columns(panels), 4), panel_size=(3.9, 3.4))
    # If fewer than half of the repeats never reached the threshold, the median is finite and the maximum is not.
    ends = summary[["time_s_median", "time_s_max"]].to_numpy(float)
    top = 1.2 * ends[np.isfinite(ends)].max(initial=0.0) or 1.0
    for panel, (_, rows) in zip(axes, panels, strict=True):
        panel.set_xlabel("devices")
        note_batches(panel, rows)
        note_rates(panel, rows["series"])
        panel.set_ylabel(label)
        draw_panel(panel, rows, styles, top)
    if unreached:
        add_note(axes[0], f"{metric} {unreached}: reached by no configuration in most repeats")
    return figure


def list_panels(summary: pd.DataFrame) -> tuple[list[tuple[str, pd.DataFrame]], str]:
    """Return the thresholds and rows of each panel, by curve, and the thresholds without any.

    A threshold that no configuration of any curve reached has no panel, unless all are such. Thresholds that were
    reached by the same evaluations share one.
    """
    reached = summary.groupby("threshold")["time_s_median"].transform(lambda times: np.isfinite(times).any())
    left_out = sorted(summary.loc[~reached, "threshold"].unique()) if reached.any() else []
    shown: dict[tuple, tuple[list[str], pd.DataFrame]] = {}
    for (_, threshold), rows in summary[reached | ~reached.any()].groupby(["curve", "threshold"], sort=False):
        seen = rows[["curve", "series", *SEEN]].itertuples(index=False, name=None)
        shown.setdefault(tuple(seen), ([], rows))[0].append(f"{threshold:g}")
    panels = [(join(thresholds), rows) for thresholds, rows in shown.values()]
    order = list(dict.fromkeys(summary["curve"]))
    panels.sort(key=lambda panel: order.index(panel[1]["curve"].iloc[0]))
    return panels, ", ".join(f"{threshold:g}" for threshold in left_out)


def join(words: list[str]) -> str:
    return ", ".join(words[:-1]) + " and " * (len(words) > 1) + words[-1]


def count_columns(panels: list[tuple[str, pd.DataFrame]]) -> int:
    """Return the number of panels of a curve, if all have as many, so that each curve has a row."""
    counts = pd.Series([rows["curve"].iloc[0] for _, rows in panels]).value_counts()
    return int(counts.iloc[0]) if counts.nunique() == 1 else len(counts)


def draw_panel(axes: Axes, rows: pd.DataFrame, styles: dict, top: float) -> None:
    """Draw times to a threshold, and crosses above their scale for device counts that did not reach it."""
    ends = {}
    axes.set_ylim(0, top)
    missed = list(rows[is_never(rows)].groupby("series")["num_gpus"])
    heights = dict(
        zip([series for series, _ in missed], add_strip(axes, len(missed), True) if missed else [], strict=True)
    )
    for series, line in rows.sort_values("num_gpus").groupby("series"):
        style = styles[series]
        never, reached = line[is_never(line)], line[~is_never(line)]
        median, slowest = reached["time_s_median"], reached["time_s_max"].clip(upper=top)
        spread = [median - reached["time_s_min"], slowest - median]
        axes.errorbar(reached["num_gpus"], median, yerr=spread, capsize=4, **style)
        mark_disturbed(axes, reached["num_gpus"], median, reached["num_disturbed"] > 0)
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
            look = {"color": style["color"], "fontsize": 9, "va": "center"}
            place = (configuration.num_gpus, height)
            axes.annotate(count(configuration), place, (8, 0), textcoords="offset points", **look)
    if not np.isfinite(rows["time_s_median"]).any():
        axes.set_yticks([])
    if missed:
        add_note(axes, "x: not reached; only k/n repeats did")
    mark_counts(axes, rows["num_gpus"])
    label_lines(axes, ends)


def is_never(configurations: Any) -> Any:
    """Whether half or more of the repeats never reached the threshold."""
    return np.isinf(configurations["time_s_median"])


def count(configuration: Any) -> str:
    """Return the repeats that reached the threshold and all repeats, as text."""
    return f"{configuration.num_reached}/{configuration.num_repeats}"
