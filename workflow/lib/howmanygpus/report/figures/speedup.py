"""Speed-ups of throughput and of time to accuracy: how much sooner more devices give the result."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from howmanygpus.report.rows import is_real, name_count, name_real_run, name_series
from howmanygpus.report.style import (
    GREY,
    SEE_GRID,
    STAR_NOTE,
    add_note,
    add_strip,
    choose_styles,
    count_failed,
    describe_guess,
    draw_empty_figure,
    draw_repeats,
    label_lines,
    make_panels,
    mark_counts,
    mark_disturbed,
    mark_overhead,
    note_batches,
    note_rates,
)
from howmanygpus.report.tables.scaling import CURVE, is_baseline, list_repeats
from howmanygpus.report.tables.time_to_accuracy import (
    choose_easiest_threshold,
    choose_hardest_threshold,
    summarize_time_to_accuracy,
)

TITLE = "Speed-up of throughput and of time to accuracy"
CATEGORY = "Scaling"
TABLES = ("scaling", "time_to_accuracy", "runs")
SHOWN = ["accuracy_speedup", "is_never"]


def draw(scaling: pd.DataFrame, time_to_accuracy: pd.DataFrame, runs: pd.DataFrame) -> Figure:
    """Draw the speed-up of throughput of each scaling curve, and beside it those of the time to each threshold."""
    throughput = scaling[scaling["speedup"].notna() & is_real(scaling)]
    if throughput.empty:
        return draw_empty_figure(f"No {name_real_run(runs)} has completed on the smallest device count; {SEE_GRID}.")
    throughput = throughput[throughput.groupby("curve")["num_gpus"].transform("nunique") > 1]
    if throughput.empty:
        return draw_empty_figure(f"No {name_real_run(runs)} has completed on a second device count; {SEE_GRID}.")
    # Studies of probes and studies with `thresholds: []` have no times.
    has_times = len(time_to_accuracy) > 0
    accuracy = compute_accuracy_speedups(throughput, time_to_accuracy) if has_times else {}
    throughput = throughput.assign(series=name_series(throughput, runs), is_disturbed=find_disturbed(throughput))
    styles = choose_styles(throughput["series"])
    beside = describe_guess(time_to_accuracy)
    titles, panels = [], []
    for curve, rows in throughput.groupby("curve", sort=False):
        titles.append(f"{curve}\nspeed-up of throughput")
        panels.append((rows, "speedup"))
        for thresholds, speedups in accuracy.items():
            titles.append(f"{curve}\nspeed-up of time to {thresholds}{beside}")
            panels.append((speedups.loc[rows.index].assign(series=rows["series"]), "accuracy_speedup"))
    figure, axes = make_panels(titles, max_columns=min(1 + max(len(accuracy), 1), 4))
    for panel, (rows, column) in zip(axes, panels, strict=True):
        draw_panel(panel, rows, column, styles)
        if column == "speedup":
            draw_rates(panel, rows, runs, styles)
    return figure


def compute_accuracy_speedups(throughput: pd.DataFrame, time_to_accuracy: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the speed-ups of the time to each threshold that was reached, see below, by the threshold as text.

    Thresholds with equal speed-ups are joined. If more devices have none of any threshold, one panel says so.
    """
    summary = summarize_time_to_accuracy(time_to_accuracy)
    thresholds = sorted(summary.loc[np.isfinite(summary["time_s_median"]), "threshold"].unique())
    found = {value: compute_accuracy_speedup(throughput, time_to_accuracy, value) for value in thresholds}
    found = {value: table for value, table in found.items() if table["accuracy_speedup"].notna().any()}
    if not found:
        hardest = choose_threshold(time_to_accuracy)
        return {f"{hardest:g}": compute_accuracy_speedup(throughput, time_to_accuracy, hardest)}
    joined: dict[str, pd.DataFrame] = {}
    for value, table in found.items():
        same = [text for text, other in joined.items() if table[SHOWN].equals(other[SHOWN])]
        joined[f"{same[0].replace(' and ', ', ')} and {value:g}" if same else f"{value:g}"] = (
            joined.pop(same[0]) if same else table
        )
    return joined


def choose_threshold(time_to_accuracy: pd.DataFrame) -> float:
    """Return the hardest threshold that some configuration reached in most repeats, else the easiest of all."""
    summary = summarize_time_to_accuracy(time_to_accuracy)
    reached = summary[np.isfinite(summary["time_s_median"])]
    return choose_hardest_threshold(reached) if len(reached) else choose_easiest_threshold(summary)


def compute_accuracy_speedup(
    throughput: pd.DataFrame, time_to_accuracy: pd.DataFrame, threshold: float
) -> pd.DataFrame:
    """Add accuracy_speedup to `throughput`: the median time of the baseline over that of the row.

    It is empty, and is_never is true, if half or more of the repeats never reached the threshold.
    """
    summary = summarize_time_to_accuracy(time_to_accuracy)
    summary = summary[summary["threshold"] == threshold]
    keys = [*CURVE, "num_nodes", "num_gpus", "per_device_batch_size"]
    joined = throughput.merge(summary[[*keys, "time_s_median"]], on=keys, how="left").set_index(throughput.index)
    curve = joined.groupby([*CURVE, "scaling_mode", "fixed_batch_size"])
    baseline = joined["time_s_median"].where(is_baseline(joined))
    baseline = baseline.groupby(curve.ngroup()).transform("first")
    speedup = (baseline / joined["time_s_median"]).where(np.isfinite(baseline) & np.isfinite(joined["time_s_median"]))
    is_never = np.isinf(joined["time_s_median"])
    return joined.assign(accuracy_speedup=speedup, is_never=is_never, is_disturbed=find_disturbed(joined))


def find_disturbed(rows: pd.DataFrame) -> pd.Series:
    """Return whether a repeat of each row or of its baseline was disturbed. rows: those of the table `scaling`."""
    curve = rows.groupby([*CURVE, "scaling_mode", "fixed_batch_size"]).ngroup()
    of_baseline = rows["num_disturbed"].where(is_baseline(rows)).groupby(curve).transform("first")
    return (rows["num_disturbed"] > 0) | (of_baseline > 0)


def draw_panel(axes: Axes, rows: pd.DataFrame, column: str, styles: dict) -> None:
    # On the logarithmic axis, a line proportional to the devices is curved.
    counts = np.unique(rows["num_gpus"])
    ends, is_empty = {}, rows[column].isna().all()
    if counts[0] < counts[-1] and not is_empty:
        axes.plot(counts, counts / counts[0], color=GREY, linestyle=":")
        ends["ideal"] = (counts[-1], counts[-1] / counts[0], GREY)
    names = mark_overhead(rows)
    axes.set_xlabel("devices")
    if names.keys() != set(names.values()):
        add_note(axes, STAR_NOTE)
    note_batches(axes, rows)
    note_rates(axes, rows["series"])
    for series, line in rows[rows[column].notna()].sort_values("num_gpus").groupby("series"):
        axes.plot(line["num_gpus"], line[column], **styles[series])
        mark_disturbed(axes, line["num_gpus"], line[column], line["is_disturbed"])
        if column == "speedup":
            counts_of = (line["num_repeats"], line["num_failed"], styles[series]["color"])
            count_failed(axes, line["num_gpus"], line[column], *counts_of)
        ends[names[series]] = (line["num_gpus"].iloc[-1], line[column].iloc[-1], styles[series]["color"])
    if is_empty:
        axes.annotate("no baseline reached it", (0.5, 0.7), xycoords="axes fraction", ha="center", color=GREY)
        axes.set_yticks([])
    mark_counts(axes, rows["num_gpus"])
    axes.set_ylim(0, 1 if is_empty else 1.06 * axes.dataLim.ymax)
    if column == "accuracy_speedup":
        ends |= mark_never(axes, rows[rows["is_never"]], styles)
    axes.set_ylabel(f"speed-up over {name_count(counts[0], 'device')}")
    label_lines(axes, ends)


def draw_rates(axes: Axes, rows: pd.DataFrame, runs: pd.DataFrame, styles: dict) -> None:
    """Draw the interval of each speed-up of throughput, and the rate of each repeat over the median of the baseline."""
    repeats = list_repeats(rows, runs)
    for series, line in rows[rows["speedup_low"].notna()].groupby("series"):
        colour = styles[series]["color"]
        ends = [line["speedup"] - line["speedup_low"], line["speedup_high"] - line["speedup"]]
        axes.errorbar(line["num_gpus"], line["speedup"], yerr=ends, capsize=4, color=colour, linestyle="none")
        own = repeats[repeats["series"] == series]
        ratio = own["speedup"] * own["images_per_s"] / own["images_per_s_median"]
        draw_repeats(axes, own["num_gpus"], ratio, own["is_outlier"], colour)
    axes.set_ylim(0, max(axes.get_ylim()[1], 1.06 * axes.dataLim.ymax))


def mark_never(axes: Axes, configurations: pd.DataFrame, styles: dict) -> dict[str, tuple[float, float, str]]:
    """Draw a cross for each device count that never reached the threshold, in one row per series below the scale.

    Returns the right end of each row, by its name, for label_lines.
    """
    series = list(configurations.groupby("series"))
    heights = add_strip(axes, len(series), is_above=False) if series else []
    ends = {}
    for height, (name, never) in zip(heights, series, strict=True):
        colour = styles[name]["color"]
        axes.plot(never["num_gpus"], [height] * len(never), "x", color=colour, markersize=8, markeredgewidth=2)
        ends[f"{name} not reached"] = (never["num_gpus"].max(), height, colour)
    return ends
