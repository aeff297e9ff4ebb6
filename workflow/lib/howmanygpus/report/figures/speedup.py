"""Speed-ups of throughput and of time to accuracy: how much sooner more devices give the result."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from howmanygpus.report.columns import CONFIGURATION, LINE
from howmanygpus.report.figures.helpers.panels import Panel, list_panels, note_machinery, write_gains
from howmanygpus.report.figures.time_to_accuracy import join
from howmanygpus.report.rows import is_real, name_count, name_real_run, name_series
from howmanygpus.report.style import (
    GREY,
    SEE_GRID,
    add_headline,
    add_note,
    add_strip,
    arrange,
    choose_styles,
    count_failed,
    describe_guess,
    draw_empty_figure,
    draw_in_grey,
    draw_repeats,
    has_families,
    label_lines,
    make_panels,
    mark_counts,
    mark_disturbed,
    note_left_out,
    note_rates,
    thin_blocks,
)
from howmanygpus.report.tables.scaling import is_baseline, list_repeats
from howmanygpus.report.thresholds import choose_easiest_threshold, choose_hardest_threshold, summarize_time_to_accuracy

TITLE = "Speed-up of throughput and of time to accuracy"
CATEGORY = "Scaling and why"
TABLES = ("scaling", "time_to_accuracy", "runs")
COMPARES = "num_gpus"
SHOWN = ["accuracy_speedup", "is_never"]


def draw(scaling: pd.DataFrame, time_to_accuracy: pd.DataFrame, runs: pd.DataFrame) -> Figure:
    """Draw the speed-up of throughput of each scaling curve, and beside it those of the time to each threshold."""
    throughput = scaling[scaling["speedup"].notna() & is_real(scaling)]
    if throughput.empty:
        return draw_empty_figure(f"No {name_real_run(runs)} has completed on the smallest device count; {SEE_GRID}.")
    throughput = throughput[throughput.groupby("curve")["num_gpus"].transform("nunique") > 1]
    if throughput.empty:
        return draw_empty_figure(f"No {name_real_run(runs)} has completed on a second device count; {SEE_GRID}.")
    throughput = throughput.assign(series=name_series(throughput, runs), is_disturbed=find_disturbed(throughput))
    styles = choose_styles(throughput["series"])
    blocks, notes = list_blocks(throughput, time_to_accuracy)
    # Of one panel alone, that of the throughput is kept.
    kept, left_out = thin_blocks([block[::-1] for block in blocks], has_families(throughput))
    blocks = [block[::-1] for block in kept]
    columns, placed = arrange(blocks)
    shown = [panel for panel in placed if panel]
    figure, axes = make_panels([panel.title if panel else None for panel in placed], max_columns=columns)
    add_headline(figure, write_headline(throughput))
    ends = [draw_speedups(panel, drawn, runs, styles) for panel, drawn in zip(axes, shown, strict=True)]
    top = 1.06 * max(panel.dataLim.ymax for panel in axes)
    for panel, drawn, own in zip(axes, shown, ends, strict=True):
        panel.set_ylim(0, top)
        label_lines(panel, own | mark_never(panel, drawn, styles))
        if note := notes.pop(drawn.rows["curve"].iloc[0], None):
            add_note(panel, note)
    note_left_out(axes[0], left_out, "time_to_accuracy")
    return figure


def write_headline(throughput: pd.DataFrame) -> str:
    """Return by how much the throughput of each series grows to the most devices, on the first scaling curve."""
    rows = throughput[throughput["curve"] == throughput["curve"].iloc[0]]
    counts = rows["num_gpus"].min(), rows["num_gpus"].max()
    gains = rows[rows["num_gpus"] == counts[1]].groupby("series")["speedup"].max()
    return f"Throughput from {counts[0]} to {name_count(counts[1], 'device')}: {write_gains(gains)}"


def list_blocks(throughput: pd.DataFrame, time_to_accuracy: pd.DataFrame) -> tuple[list[list[Panel]], dict[str, str]]:
    """Return the panels of each scaling curve and, if it has many series, of each family of frameworks.

    Their rows have the column `shown`, and `is_rate`. Also returned is a note about the thresholds of each curve that
    have no panel, because no baseline reached them.
    """
    blocks: list[list[Panel]] = []
    beside, notes = describe_guess(time_to_accuracy), {}
    for curve, rows in throughput.groupby("curve", sort=False):
        shown, left_out = compute_accuracy_speedups(rows, time_to_accuracy)
        tables = [("throughput", rows.assign(shown=rows["speedup"], is_never=False, is_rate=True))]
        for text, table in shown.items():
            own = table.assign(shown=table["accuracy_speedup"], is_rate=False)
            tables.append((f"time to {text}{beside}", own))
        if left_out:
            notes[str(curve)] = f"time to {join(left_out)}: no baseline reached it"
        blocks += list_panels(
            rows,
            [(f"{curve}\nspeed-up of {what}", table, table.loc[table["is_never"], "series"]) for what, table in tables],
        )
    return blocks, notes


def compute_accuracy_speedups(
    throughput: pd.DataFrame, time_to_accuracy: pd.DataFrame
) -> tuple[dict[str, pd.DataFrame], list[str]]:
    """Return the speed-ups of the time to each threshold by the threshold as text, and the thresholds without any.

    throughput: rows of one scaling curve. Thresholds with equal speed-ups are joined.
    """
    shown: list[tuple[list[str], pd.DataFrame]] = []
    left_out = []
    # Studies of probes and studies with `thresholds: []` have no times.
    for threshold in sorted(time_to_accuracy["threshold"].unique()):
        table = compute_accuracy_speedup(throughput, time_to_accuracy, threshold)
        same = [texts for texts, other in shown if table[SHOWN].equals(other[SHOWN])]
        if table["accuracy_speedup"].isna().all():
            left_out.append(f"{threshold:g}")
        elif same:
            same[0].append(f"{threshold:g}")
        else:
            shown.append(([f"{threshold:g}"], table))
    return {join(texts): table for texts, table in shown}, left_out


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
    joined = throughput.merge(summary[[*CONFIGURATION, "time_s_median"]], on=CONFIGURATION, how="left").set_index(
        throughput.index
    )
    curve = joined.groupby(LINE)
    baseline = joined["time_s_median"].where(is_baseline(joined))
    baseline = baseline.groupby(curve.ngroup()).transform("first")
    speedup = (baseline / joined["time_s_median"]).where(np.isfinite(baseline) & np.isfinite(joined["time_s_median"]))
    is_never = np.isinf(joined["time_s_median"])
    return joined.assign(accuracy_speedup=speedup, is_never=is_never, is_disturbed=find_disturbed(joined))


def find_disturbed(rows: pd.DataFrame) -> pd.Series:
    """Return whether a repeat of each row or of its baseline was disturbed. rows: those of the table `scaling`."""
    curve = rows.groupby(LINE).ngroup()
    of_baseline = rows["num_disturbed"].where(is_baseline(rows)).groupby(curve).transform("first")
    return (rows["num_disturbed"] > 0) | (of_baseline > 0)


def draw_speedups(axes: Axes, panel: Panel, runs: pd.DataFrame, styles: dict) -> dict[str, tuple[float, float, str]]:
    """Draw the speed-ups of a panel and ideal scaling. Returns the right end of each line, by its name."""
    rows, is_rate = panel.rows, bool(panel.rows["is_rate"].all())
    # On the logarithmic axis, a line proportional to the devices is curved.
    counts = np.unique(pd.concat([rows, panel.others])["num_gpus"])
    axes.plot(counts, counts / counts[0], color=GREY, linestyle=":")
    ends = {"ideal": (counts[-1], counts[-1] / counts[0], GREY)}
    names = note_machinery(axes, rows)
    note_rates(axes, rows["series"])
    draw_in_grey(axes, panel.others, "num_gpus", "shown")
    for series, line in rows[rows["shown"].notna()].sort_values("num_gpus").groupby("series"):
        axes.plot(line["num_gpus"], line["shown"], **styles[series])
        mark_disturbed(axes, line["num_gpus"], line["shown"], line["is_disturbed"])
        if is_rate:
            counts_of = (line["num_repeats"], line["num_failed"], styles[series]["color"])
            count_failed(axes, line["num_gpus"], line["shown"], *counts_of)
        if not (len(line) == 1 and rows.loc[rows["series"] == series, "is_never"].any()):
            ends[names[series]] = (line["num_gpus"].iloc[-1], line["shown"].iloc[-1], styles[series]["color"])
    if is_rate:
        draw_rates(axes, rows, runs, styles)
    mark_counts(axes, counts)
    axes.set_ylabel(f"speed-up over {name_count(counts[0], 'device')}")
    return ends


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


def mark_never(axes: Axes, panel: Panel, styles: dict) -> dict[str, tuple[float, float, str]]:
    """Draw a cross for each device count that never reached the threshold, in one row per series below the scale.

    Returns the right end of each row, by its name, for label_lines.
    """
    heights = add_strip(axes, panel.depth, is_above=False) if panel.depth else []
    configurations = panel.rows[panel.rows["is_never"]]
    ends = {}
    for height, (name, never) in zip(heights, configurations.groupby("series"), strict=False):
        colour = styles[name]["color"]
        axes.plot(never["num_gpus"], [height] * len(never), "x", color=colour, markersize=8, markeredgewidth=2)
        ends[f"{name} not reached"] = (never["num_gpus"].max(), height, colour)
    return ends
