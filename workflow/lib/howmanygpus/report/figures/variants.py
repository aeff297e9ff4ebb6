"""Throughput, quality, evaluation and start-up of each variant beside those of the first variant."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from howmanygpus.report.columns import SERIES, list_columns
from howmanygpus.report.equivalence import NO, UNDECIDED, YES
from howmanygpus.report.figures.helpers.panels import name_rows
from howmanygpus.report.metrics import name_metric
from howmanygpus.report.rows import find_unit
from howmanygpus.report.style import (
    COLOURS,
    GREY,
    SEE_GRID,
    add_headline,
    add_note,
    count_failed,
    darken,
    draw_empty_figure,
    mark_disturbed,
    name_guess,
)

TITLE = "Variants: throughput, quality and seconds"
CATEGORY = "The same work?"
TABLES = ("variants",)
COMPARES = "variants"
JUDGED = {YES: COLOURS[0], NO: COLOURS[1], UNDECIDED: COLOURS[4]}
SECONDS = {"evaluation_s": "an evaluation", "start_s": "start-up and first step"}
WORDS = {NO: "other quality", UNDECIDED: UNDECIDED}


def draw(variants: pd.DataFrame) -> Figure:
    """Draw one row per configuration and variant: throughput ratio, difference in quality, and seconds if known."""
    if variants.empty:
        return draw_empty_figure(f"No configuration has completed in two variants; {SEE_GRID}.")
    rows = variants.sort_values(
        ["variant", "framework", "num_gpus", "num_nodes", "per_device_batch_size"], ascending=False
    )
    rows = rows.reset_index(drop=True)
    timed = [name for name in SECONDS if rows[name].notna().any()]
    size = (9.2 + 3.0 * len(timed), 1.3 + 0.36 * len(rows))
    figure, (speed, quality, *clocks) = plt.subplots(1, 2 + len(timed), figsize=size, sharey=True, layout="constrained")
    colours = [JUDGED.get(judgement, GREY) for judgement in rows["same_quality"]]
    draw_throughput(speed, rows, colours)
    draw_quality(quality, rows, colours)
    for axes, name in zip(clocks, timed, strict=True):
        draw_seconds(axes, rows, name)
    names = rows["variant"] + " " + rows["framework"]
    varying = [*list_columns(SERIES, but=["framework", "variant"]), "placement"]
    speed.set_yticks(rows.index, name_rows(rows, names, varying))
    speed.set_ylim(-0.6, len(rows) - 0.4)
    add_headline(figure, write_headline(rows))
    return figure


def write_headline(rows: pd.DataFrame) -> str:
    """Return the range of each variant's ratio of rates, and in how many rows the quality differs."""
    told = []
    for variant, own in rows.groupby("variant"):
        least, most = (f"{ratio:.2f}" for ratio in (own["throughput_ratio"].min(), own["throughput_ratio"].max()))
        told.append(f"{variant} {least if least == most else f'{least} to {most}'} x")
    differ = rows["same_quality"].eq(NO)
    quality = f"; another quality in {differ.sum()} of {len(rows)}" if differ.any() else ""
    return f"Rate beside {rows['base_variant'].iloc[0]}: {', '.join(told)}{quality}"


def draw_throughput(axes: Axes, rows: pd.DataFrame, colours: list[str]) -> None:
    axes.axvline(1.0, color=GREY, linestyle=":")
    axes.hlines(rows.index, 1.0, rows["throughput_ratio"], color=colours, linewidth=3)
    axes.scatter(rows["throughput_ratio"], rows.index, color=colours, zorder=3)
    for position, row in rows.iterrows():
        place, side = (row["throughput_ratio"], position), 1 if row["throughput_ratio"] >= 1 else -1
        text, anchor = f"{row['throughput_ratio']:.2f}", "left" if side > 0 else "right"
        axes.annotate(text, place, (8 * side, 0), textcoords="offset points", va="center", ha=anchor, fontsize=10)
    least, most = min(rows["throughput_ratio"].min(), 1), max(rows["throughput_ratio"].max(), 1)
    axes.set_xlim(least - 0.25 * (most - least) - 0.05, most + 0.25 * (most - least) + 0.05)
    axes.set_xlabel(f"{find_unit(rows)}/s divided by\nthose of {rows['base_variant'].iloc[0]}")
    places = pd.Series(rows.index, index=rows.index)
    mark_disturbed(axes, rows["throughput_ratio"], places, rows["num_disturbed"] > 0)
    count_failed(axes, rows["throughput_ratio"], places, rows["num_repeats"], rows["num_failed"], GREY)
    axes.set_title("throughput")


def draw_quality(axes: Axes, rows: pd.DataFrame, colours: list[str]) -> None:
    axes.set_title("quality at the end")
    judged = rows[rows["quality_difference"].notna()]
    if judged.empty:
        axes.annotate("not evaluated", (0.5, 0.5), xycoords="axes fraction", ha="center", color=GREY)
        return
    axes.axvline(0.0, color=GREY, linestyle=":")
    margin = judged["quality_margin"].iloc[0]
    axes.axvspan(-margin, margin, color="#DDDDDD", zorder=0)
    axes.scatter(judged["quality_difference"], judged.index, color=[colours[i] for i in judged.index], zorder=3)
    judgements = set(judged["same_quality"])
    says_once = len(judged) > 1 and len(judgements) == 1
    for position, row in judged.iterrows():
        axes.hlines(position, row["difference_low"], row["difference_high"], color=colours[position], linewidth=2)
        if row["same_quality"] in WORDS and not says_once:
            place = (row["quality_difference"], position)
            inwards = "left" if row["quality_difference"] < 0 else "right"
            words, look = WORDS[row["same_quality"]], {"color": darken(colours[position]), "fontsize": 9}
            axes.annotate(words, place, (0, 6), textcoords="offset points", ha=inwards, **look)
    ends = judged[["quality_difference", "difference_low", "difference_high"]].abs()
    reach = 1.15 * max(ends.max().max(), margin)
    axes.set_xlim(-reach, reach)
    axes.xaxis.set_major_locator(MaxNLocator(4))
    metric, base = name_metric(judged["quality_metric"].iloc[0]), judged["base_variant"].iloc[0]
    axes.set_xlabel(f"{metric} minus\nthat of {base}")
    add_note(axes, f"grey: the margin of {margin:g}")
    if says_once and (judgement := judgements.pop()) in WORDS:
        add_note(axes, f"all: {WORDS[judgement]}")
    draw_guess(axes, judged, reach)


def draw_seconds(axes: Axes, rows: pd.DataFrame, name: str) -> None:
    """Draw the seconds of each variant as points, and those of the first variant as lines across."""
    before, after = rows[f"base_{name}"].astype(float), rows[name].astype(float)
    axes.hlines(rows.index, before, after, color=GREY, linewidth=2)
    axes.scatter(before, rows.index, marker="|", s=160, color=GREY, linewidth=2)
    axes.scatter(after, rows.index, color=COLOURS[0], zorder=3)
    for position, seconds in after[after.notna()].items():
        place = (np.fmax(seconds, before[position]), position)
        axes.annotate(f"{seconds:.3g}", place, (8, 0), textcoords="offset points", va="center", fontsize=10)
    axes.set_xlim(0, 1.3 * max(before.max(), after.max()))
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.set_title(SECONDS[name])
    axes.set_xlabel(f"seconds; bar across:\nthose of {rows['base_variant'].iloc[0]}")


def draw_guess(axes: Axes, judged: pd.DataFrame, reach: float) -> None:
    """Draw a thin line at the quality of a guess by class frequencies, or name it at the edge beyond which it lies."""
    guess = (judged["quality_of_guess"] - judged["base_quality"]).astype(float)
    if not np.isfinite(guess).any():
        return
    name = f"{name_guess(judged['quality_metric'].iloc[0])}: {judged['quality_of_guess'].dropna().iloc[0]:.3g}"
    place, look = float(guess.mean()), {"color": GREY, "fontsize": 9, "va": "bottom"}
    transform = axes.get_xaxis_transform()
    if abs(place) < reach:
        axes.axvline(place, color=GREY, linewidth=0.8)
        axes.annotate(name, (place, 0.0), (3, 2), transform, "offset points", **look)
    elif place < 0:
        axes.annotate(f"\N{LEFTWARDS ARROW} {name}", (0.0, 0.0), (2, 2), "axes fraction", "offset points", **look)
    else:
        axes.annotate(
            f"{name} \N{RIGHTWARDS ARROW}", (1.0, 0.0), (-2, 2), "axes fraction", "offset points", ha="right", **look
        )
