"""Published training times and quality beside measured ones, each in panels of their own."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from howmanygpus.report.figures.helpers.published import (
    BAR,
    NOTHING_MEASURED,
    make_rows,
    name_bars,
    style_published,
    title_measured,
    title_published,
)
from howmanygpus.report.metrics import name_metric
from howmanygpus.report.rows import is_real, name_series
from howmanygpus.report.style import add_note, choose_styles, darken, describe_guess, mark_disturbed, note_rates
from howmanygpus.report.thresholds import summarize_time_to_accuracy

TITLE = "Time and quality, published and measured"
CATEGORY = "More"
TABLES = ("published", "runs", "time_to_accuracy")
NEEDS_PUBLISHED = ("quality_metric",)
INK = "#555555"
LONGEST_S = 600
"""Times up to this many seconds are drawn in seconds, longer ones in minutes."""
COLUMNS = ["series", "num_gpus", "global_batch_size", "time_s", "quality", "quality_of_guess", "threshold", "never"]
COLUMNS += ["is_disturbed"]
CONFIGURATION = ["series", "device", "num_gpus", "global_batch_size"]


def draw(published: pd.DataFrame, runs: pd.DataFrame, time_to_accuracy: pd.DataFrame) -> Figure:
    """Draw two panels per hardware, time on the left and quality on the right, with a row per configuration."""
    measured = [*group_measured(runs), *group_thresholds(published, runs, time_to_accuracy)]
    groups = [*group_published(published), *measured]
    figure, axes = make_rows([title for title, *_ in groups], [len(rows) for _, rows, *_ in groups], num_columns=2)
    for (times, quality), (_, rows, styles, metric) in zip(axes, groups, strict=True):
        rows = rows.sort_values(["series", "num_gpus", "global_batch_size"]).reset_index(drop=True)
        colours = [styles[series]["color"] for series in rows["series"]]
        draw_times(times, rows, colours)
        draw_quality(quality, rows, colours)
        quality.set_xlabel(f"test {name_metric(metric)}{describe_guess(rows.assign(metric=metric))}")
    if not measured:
        add_note(axes[0][0], NOTHING_MEASURED)
    return figure


def group_published(published: pd.DataFrame) -> list[tuple]:
    """Return one group per source and hardware: title, rows with COLUMNS, styles, metric."""
    judged = published[published["quality_metric"].notna()]
    never = judged["threshold"].map("never reached {:g}".format, na_action="ignore")
    judged = judged.assign(time_s=judged["duration_s"], never=never, is_disturbed=False, quality_of_guess=None)
    groups = []
    for (_, hardware, metric), rows in judged.groupby(["source", "hardware", "quality_metric"], sort=False):
        words = "time as the source counts it" + (", another network" if rows["model"].isna().all() else "")
        title = title_published(hardware, rows["year"].iloc[0], words)
        groups.append((title, rows[COLUMNS], style_published(rows), metric))
    return groups


def group_measured(runs: pd.DataFrame) -> list[tuple]:
    """Return one group per device: median times and mean quality over the repeats that completed."""
    done = runs[(runs["status"] == "completed") & is_real(runs) & runs["quality_last"].notna()]
    if done.empty:
        return []
    done = done.assign(
        series=name_series(done, runs),
        time_s=done["train_s"] + done["eval_s"],
        quality=done["quality_last"].astype(float),
        disturbed=done["disturbed"].eq(True),
    )
    configurations = done.groupby(CONFIGURATION, as_index=False, sort=False).agg(
        time_s=("time_s", "median"),
        quality=("quality", "mean"),
        quality_of_guess=("quality_of_guess", "first"),
        is_disturbed=("disturbed", "any"),
    )
    configurations[["threshold", "never"]] = None
    styles, metric = choose_styles(configurations["series"]), done["quality_metric"].iloc[0]
    return [
        (title_measured(runs, device, "training and evaluations"), rows[COLUMNS], styles, metric)
        for device, rows in configurations.groupby("device", sort=False)
    ]


def group_thresholds(published: pd.DataFrame, runs: pd.DataFrame, time_to_accuracy: pd.DataFrame) -> list[tuple]:
    """Return one group per device and threshold of the published numbers: median training times to the threshold.

    A threshold or metric that the study does not have gives no group.
    """
    thresholds = published[["quality_metric", "threshold"]].dropna().drop_duplicates()
    if time_to_accuracy.empty or not (runs["status"] == "completed").any():
        return []
    times = time_to_accuracy.merge(thresholds.rename(columns={"quality_metric": "metric"}))
    if times.empty:
        return []
    configurations = summarize_time_to_accuracy(times)
    reached = configurations["num_reached"].astype(str) + " of " + configurations["num_repeats"].astype(str)
    configurations = configurations.assign(
        series=name_series(configurations, runs),
        time_s=configurations["time_s_median"].where(np.isfinite(configurations["time_s_median"])),
        quality=None,
        never=configurations["threshold"].map("{:g} in ".format) + reached + " repeats",
        is_disturbed=configurations["num_disturbed"] > 0,
    )
    styles, groups = choose_styles(configurations["series"]), []
    for (device, metric, threshold), rows in configurations.groupby(["device", "metric", "threshold"], sort=False):
        title = title_measured(runs, device, f"training to test {name_metric(metric)} {threshold:g}")
        groups.append((title, rows[COLUMNS], styles, metric))
    return groups


def draw_times(axes: Axes, rows: pd.DataFrame, colours: list[str]) -> None:
    """Draw a bar per configuration, or name the threshold that it never reached."""
    longest = rows["time_s"].max()
    unit, scale = ("min", 60) if longest > LONGEST_S else ("s", 1)
    axes.set_xlabel(f"time ({unit})")
    places, times = pd.Series(rows.index[::-1], index=rows.index), rows["time_s"] / scale
    axes.barh(places, times.fillna(0), height=BAR, color=colours)
    mark_disturbed(axes, times, places, rows["is_disturbed"].astype(bool))
    note_rates(axes, rows["series"])
    for position, configuration in rows[rows["time_s"].isna()].iterrows():
        where, colour = (0, places[position]), colours[position]
        axes.plot(*where, "x", color=colour, clip_on=False)
        axes.annotate(
            configuration["never"], where, (8, 0), textcoords="offset points", color=darken(colour), va="center"
        )
    for position, time in times.dropna().items():
        where = (time, places[position])
        axes.annotate(f"{time:.3g}", where, (10, 0), textcoords="offset points", va="center", color=INK, fontsize=9)
    if longest > 0:
        axes.set_xlim(0, 1.25 * longest / scale)
    else:
        axes.set(xlim=(0, 1), xticks=[])
    name_bars(axes, rows)


def draw_quality(axes: Axes, rows: pd.DataFrame, colours: list[str]) -> None:
    """Draw a point per configuration; with only a threshold, a circle, or a cross if it was never reached."""
    for position, (_, configuration) in enumerate(rows.iterrows()):
        place = len(rows) - 1 - position
        if pd.notna(configuration["quality"]):
            axes.plot(configuration["quality"], place, "o", color=colours[position])
            height, text = configuration["quality"], f"{configuration['quality']:.4g}"
        else:
            is_reached = pd.notna(configuration["time_s"])
            axes.plot(
                configuration["threshold"], place, "D" if is_reached else "x", color=colours[position], markersize=8
            )
            height, text = (
                configuration["threshold"],
                f"{'reached' if is_reached else 'not'} {configuration['threshold']:g}",
            )
        axes.annotate(text, (height, place), (8, 0), textcoords="offset points", va="center", color=INK, fontsize=9)
    axes.margins(x=0.25)
