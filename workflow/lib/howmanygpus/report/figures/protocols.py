"""Effects of unfair protocols of published studies: each framework under the protocol against its own fair value."""

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from howmanygpus.report.columns import SERIES, list_columns
from howmanygpus.report.figures.helpers.panels import name_rows
from howmanygpus.report.metrics import name_metric
from howmanygpus.report.published import NO, YES, describe_protocol
from howmanygpus.report.rows import name_count
from howmanygpus.report.style import GREY, SEE_GRID, add_note, draw_empty_figure, get_look, mark_disturbed
from howmanygpus.report.tables.protocols import QUALITY, RATE

TITLE = "Unfair protocols: what they change"
CATEGORY = "The same work?"
TABLES = ("protocols",)
NEEDS_PROTOCOLS = True
SHOWS_UNFAIR = True
VARYING = list_columns(SERIES, but=["framework", "variant"])
ROW = ["num_gpus", "framework", "per_device_batch_size", *VARYING]
ARROW = "\N{RIGHTWARDS ARROW}"
RANKS_NOTE = f"1 {ARROW} 2: place among frameworks"
TEXT_BOX = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}
UNSURE_NOTE = "?: within the spread, or one repeat"


def draw(protocols: pd.DataFrame) -> Figure:
    """Draw a row of panels per protocol, one per measure: the ratio or the difference, with its range over repeats."""
    if protocols.empty:
        return draw_empty_figure(f"No run has completed both ways; {SEE_GRID}.")
    own = protocols.assign(row=name_effects(protocols)).sort_values(ROW, ascending=False, kind="stable")
    groups = [own[own["protocol"] == name] for name in protocols["protocol"].unique()]
    measures = [[name for name in protocols["measure"].unique() if name in set(rows["measure"])] for rows in groups]
    heights = [1.35 + 0.32 * rows["row"].nunique() for rows in groups]
    columns = max(map(len, measures))
    figure, grid = plt.subplots(
        *(len(groups), columns),
        **{"figsize": (3.2 + 3.7 * columns, sum(heights)), "squeeze": False, "sharey": "row", "layout": "constrained"},
        gridspec_kw={"height_ratios": heights},
    )
    for axes, rows, names in zip(grid, groups, measures, strict=True):
        axes[0].set_title(describe_protocol(rows["protocol"].iloc[0]))
        places = {name: place for place, name in enumerate(dict.fromkeys(rows["row"]))}
        for panel, measure in zip(axes, names, strict=False):
            draw_effects(panel, rows[rows["measure"] == measure], places)
        axes[0].set_yticks(list(places.values()), list(places))
        axes[0].set_ylim(-0.6, len(places) - 0.4)
        for panel in axes[len(names) :]:
            panel.remove()
    return figure


def draw_effects(axes: Axes, rows: pd.DataFrame, places: dict[str, int]) -> None:
    """Draw the rows of one measure. places: the height of each row by its name."""
    middle = 1.0 if rows["effect"].iloc[0] == "ratio" else 0.0
    axes.axvline(middle, color=GREY, linestyle=":")
    for _, row in rows.iterrows():
        (colour, marker), place = get_look(row["framework"]), places[row["row"]]
        axes.hlines(place, row["effect_min"], row["effect_max"], color=colour, linewidth=3)
        axes.plot(row["effect_median"], place, marker, color=colour)
        spot, look = (row["effect_max"], place), {"va": "center", "fontsize": 10, "bbox": TEXT_BOX}
        axes.annotate(name_effect(row), spot, (9, 0), textcoords="offset points", **look)
    low, high = min(rows["effect_min"].min(), middle), max(rows["effect_max"].max(), middle)
    reach = (high - low) or 0.1
    # Effects and places are written right of the points.
    axes.set_xlim(low - 0.1 * reach, high + 0.6 * reach)
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.set_xlabel(name_axis(rows.iloc[0]))
    if has_other_place(rows).any():
        add_note(axes, RANKS_NOTE)
    if (has_other_place(rows) & (rows["order_changes"] != YES)).any():
        add_note(axes, UNSURE_NOTE)
    mark_disturbed(axes, rows["effect_median"], rows["row"].map(places), rows["num_disturbed"] > 0)


def has_other_place(rows: pd.DataFrame) -> pd.Series:
    return (rows["fair_rank"] != rows["unfair_rank"]) & (rows["order_changes"] != NO)


def name_effect(row: pd.Series) -> str:
    """Write the median effect, and the places of a framework if they differ, such as `0.66  1 → 2`."""
    text = f"{row['effect_median']:.3g}" if row["effect"] == "ratio" else f"{row['effect_median']:+.2g}"
    if row["fair_rank"] == row["unfair_rank"] or row["order_changes"] == NO:
        return text
    doubt = "" if row["order_changes"] == YES else "?"
    return f"{text}   {row['fair_rank']:.0f} {ARROW} {row['unfair_rank']:.0f}{doubt}"


def name_effects(rows: pd.DataFrame) -> list[str]:
    """Return the name of each row: framework, devices, and whatever of batch, input, precision and device varies."""
    names = name_rows(rows.assign(unit="images"), rows["framework"], VARYING)
    return [
        name + (f", {name_count(int(number), 'test image')}" if pd.notna(number) else "")
        for name, number in zip(names, rows["num_images"], strict=True)
    ]


def name_axis(row: pd.Series) -> str:
    """Name the measure and its base of comparison."""
    if row["measure"] == RATE:
        return "images/s, ratio to fair"
    if row["measure"] == QUALITY:
        return f"final {name_metric(row['metric'])} minus fair"
    return f"time to {name_metric(row['metric'])} {row['target']:g}, ratio to fair"
