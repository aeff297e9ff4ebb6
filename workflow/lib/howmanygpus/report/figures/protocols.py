"""What unfair protocols of published studies change: each framework under the protocol against its own fair value."""

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from howmanygpus.report.metrics import name_metric
from howmanygpus.report.published.protocols import WORDS
from howmanygpus.report.style import GREY, SEE_GRID, add_note, look_of, ring_disturbed, say_nothing_to_show
from howmanygpus.report.tables.protocols import NO, QUALITY, RATE, YES

TITLE = "Unfair protocols: what they change"
TABLES = ("protocols",)
NEEDS_PROTOCOLS = True
SHOWS_UNFAIR = True
ROW = ["framework", "num_gpus", "per_device_batch_size", "input", "precision", "device"]
RANKS_NOTE = "a > b: place among the frameworks by fair values and under the protocol, where it differs"
IN_DOUBT = "?: within the spread of the repeats, or by one repeat each"


def draw(protocols: pd.DataFrame) -> Figure:
    """Draw one panel per protocol and measure: the ratio or the difference, with its range over the repeats."""
    if protocols.empty:
        return say_nothing_to_show(f"No run has completed both ways; {SEE_GRID}.")
    panels = [
        own.sort_values(["num_gpus", *ROW], ascending=False).reset_index(drop=True)
        for _, own in protocols.groupby(["protocol", "measure"], sort=False)
    ]
    heights = [1.45 + 0.3 * len(rows) for rows in panels]
    figure, grid = plt.subplots(
        *(len(panels), 1),
        **{"figsize": (8.6, sum(heights)), "squeeze": False, "layout": "constrained"},
        gridspec_kw={"height_ratios": heights},
    )
    for axes, rows in zip(grid[:, 0], panels, strict=True):
        draw_panel(axes, rows)
    return figure


def draw_panel(axes: Axes, rows: pd.DataFrame) -> None:
    first = rows.iloc[0]
    is_ratio, middle = first["effect"] == "ratio", 1.0 if first["effect"] == "ratio" else 0.0
    axes.set_title(f"not comparable: {WORDS[first['protocol']]}")
    axes.axvline(middle, color=GREY, linestyle=":")
    for place, row in rows.iterrows():
        colour, marker = look_of(row["framework"])
        axes.hlines(place, row["effect_min"], row["effect_max"], color=colour, linewidth=3)
        axes.plot(row["effect_median"], place, marker, color=colour)
        text = f"{row['effect_median']:.3g}" if is_ratio else f"{row['effect_median']:+.2g}"
        spot = (row["effect_max"], place)
        axes.annotate(text + name_places(row), spot, (9, 0), textcoords="offset points", va="center", fontsize=10)
    low, high = min(rows["effect_min"].min(), middle), max(rows["effect_max"].max(), middle)
    reach = (high - low) or 0.1
    # Numbers and places are written right of the points.
    axes.set_xlim(low - 0.1 * reach, high + 0.35 * reach)
    axes.set_yticks(rows.index, name_rows(rows))
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.set_xlabel(name_axis(first))
    if (rows["fair_rank"] != rows["unfair_rank"]).any():
        add_note(axes, RANKS_NOTE)
    if is_doubtful(rows).any():
        add_note(axes, IN_DOUBT)
    ring_disturbed(axes, rows["effect_median"], pd.Series(rows.index, index=rows.index), rows["num_disturbed"] > 0)


def is_doubtful(rows: pd.DataFrame) -> pd.Series:
    """Whether each row's framework has another place, but its configuration's order may be the same."""
    return (rows["fair_rank"] != rows["unfair_rank"]) & (rows["order_changes"] != YES)


def name_places(row: pd.Series) -> str:
    """Name the places of a framework if they differ, such as `   1 > 2`."""
    if row["fair_rank"] == row["unfair_rank"] or row["order_changes"] == NO:
        return ""
    return f"   {row['fair_rank']:.0f} > {row['unfair_rank']:.0f}" + ("" if row["order_changes"] == YES else "?")


def name_rows(rows: pd.DataFrame) -> list[str]:
    """Name of each row: framework, devices, and those of batch size, input, precision and device that vary."""
    varying = [name for name in ("input", "precision", "device") if rows[name].nunique() > 1]
    sizes = rows["per_device_batch_size"].nunique() > 1
    return [
        f"{row['framework']}, {row['num_gpus']} device{'s' if row['num_gpus'] > 1 else ''}"
        + (f" x {row['per_device_batch_size']} images" if sizes else "")
        + "".join(f" {row[name]}" for name in varying)
        + (f", {row['num_images']:.0f} test images" if pd.notna(row["num_images"]) else "")
        for _, row in rows.iterrows()
    ]


def name_axis(row: pd.Series) -> str:
    """Name the measure and what it is compared with."""
    if row["measure"] == RATE:
        return "images/s divided by the fair rate"
    if row["measure"] == QUALITY:
        return f"final {name_metric(row['metric'])} minus the fair one"
    return f"training time to {name_metric(row['metric'])} {row['target']:g}, divided by the fair time"
