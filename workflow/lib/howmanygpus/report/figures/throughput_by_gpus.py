"""Throughput by device count, with ideal scaling."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from howmanygpus.report.columns import CONFIGURATION, LINE
from howmanygpus.report.figures.helpers.panels import draw_line, find_end, list_panels, note_machinery
from howmanygpus.report.figures.helpers.predicted import draw_bands, list_brackets, make_logarithmic
from howmanygpus.report.rows import choose_inputs, find_unit, leave_out_repeated, name_count, name_series
from howmanygpus.report.style import (
    GREY,
    SEE_GRID,
    add_headline,
    add_note,
    choose_styles,
    draw_empty_figure,
    draw_in_grey,
    has_families,
    label_lines,
    make_panels,
    mark_counts,
    note_left_out,
    thin_blocks,
)
from howmanygpus.report.tables.scaling import is_baseline, list_repeats
from howmanygpus.report.words import write_number

TITLE = "Throughput by device count"
CATEGORY = "Scaling and why"
TABLES = ("scaling", "runs", "ceilings")
SHOWS_PREDICTED = True
BOUNDS = {"input": (0, (5, 2)), "exchange": (0, (4, 1.5, 1, 1.5))}
"""Lines of the bounds."""
BOUNDS_NOTE = "thin: bound by input (dashed), exchange (dash-dotted)"
WORTH = 0.98
"""A bound is drawn if it is below this part of ideal scaling somewhere."""


def draw(
    scaling: pd.DataFrame, runs: pd.DataFrame, ceilings: pd.DataFrame, predictions: pd.DataFrame | None = None
) -> Figure:
    """Draw one panel per scaling curve: medians with their intervals, repeats, and dotted lines for ideal scaling.

    A curve with many series has a panel for each family of frameworks, with the others in grey.

    A thin line is the bound by the loader or by the exchange of gradients, if it is below ideal scaling. With
    predictions, the axis of rates is logarithmic.
    """
    measured = choose_inputs(scaling)
    measured = measured[measured["num_repeats"] > 0]
    if measured.empty:
        return draw_empty_figure(f"No run has completed with a rate; {SEE_GRID}.")
    measured = leave_out_repeated(measured.assign(series=name_series(measured)))
    bounds = add_series(ceilings, measured)
    brackets = list_brackets(predictions, "images_per_s")
    styles = choose_styles(measured["series"])
    curves = [list_panels(rows, [(curve, rows, ())]) for curve, rows in measured.groupby("curve", sort=False)]
    blocks, left_out = thin_blocks([block for blocks in curves for block in blocks], has_families(measured))
    panels = [panel for block in blocks for panel in block]
    per_row = measured.groupby("scaling_mode")["curve"].nunique().max()
    max_columns = min(per_row, 4) if len(panels) == measured["curve"].nunique() else 3
    figure, axes = make_panels([panel.title for panel in panels], max_columns=max_columns)
    for panel, drawn in zip(axes, panels, strict=True):
        draw_rates(panel, drawn.rows, list_repeats(drawn.rows, runs), styles, brackets)
        draw_bounds(panel, bounds.merge(drawn.rows[["curve", "series"]].drop_duplicates()), styles)
        draw_in_grey(panel, drawn.others, "num_gpus", "images_per_s_median")
    add_headline(figure, write_headline(measured))
    note_left_out(axes[0], left_out, "scaling")
    for curve in dict.fromkeys(drawn.rows["curve"].iloc[0] for drawn in panels):
        same = [panel for panel, drawn in zip(axes, panels, strict=True) if drawn.rows["curve"].iloc[0] == curve]
        top = 1.06 * max(panel.dataLim.ymax for panel in same)
        for panel in same:
            if brackets.empty:
                panel.set_ylim(0, top)
            else:
                make_logarithmic(panel, min(panel.dataLim.ymin for panel in same) / 1.2, 1.15 * top)
    return figure


def write_headline(measured: pd.DataFrame) -> str:
    """Return the highest rate, by its median, and what it was measured with."""
    best = measured.loc[measured["images_per_s_median"].idxmax()]
    rate = f"{write_number(best['images_per_s_median'])} {best['unit']}/s"
    return f"Highest rate: {rate}, {best['series']} on {name_count(best['num_gpus'], 'device')}"


def add_series(ceilings: pd.DataFrame, measured: pd.DataFrame) -> pd.DataFrame:
    """Return the bounds of the drawn configurations, with the names of their series. measured: rows of `scaling`."""
    keys = [*CONFIGURATION, "curve"]
    return ceilings.merge(measured[[*keys, "series"]], on=keys)


def draw_bounds(axes: Axes, bounds: pd.DataFrame, styles: dict) -> None:
    """Draw the lowest bound of each series if it is below ideal scaling, and write how far it is from the rates."""
    errors: list[float] = []
    for series, line in bounds.sort_values("num_gpus").groupby("series"):
        name = line["lowest_bound"].iloc[-1]
        rates = line[f"{name}_images_per_s"].astype(float)
        is_lower = rates < WORTH * line["linear_images_per_s"]
        if is_lower.any():
            axes.plot(line["num_gpus"], rates, color=styles[series]["color"], linestyle=BOUNDS[name], linewidth=0.9)
            errors += list(line.loc[is_lower & (line["lowest_bound"] == name), "error_frac"])
    if errors:
        add_note(axes, BOUNDS_NOTE, is_shared=True)
        add_note(axes, f"bounds are {100 * min(errors):+.0f} to {100 * max(errors):+.0f} % from the measured rates")


def draw_rates(axes: Axes, rows: pd.DataFrame, repeats: pd.DataFrame, styles: dict, brackets: pd.DataFrame) -> None:
    ends, names = {}, note_machinery(axes, rows)
    # On the logarithmic axis, a line proportional to the devices is curved.
    predicted = brackets.merge(rows[LINE].drop_duplicates())["num_gpus"]
    counts, has_ideal = np.unique([*rows["num_gpus"], *predicted]), False
    for series, line in rows.sort_values("num_gpus").groupby("series"):
        style = styles[series]
        own, place = repeats[repeats["series"] == series], (line["num_gpus"], line["images_per_s_median"])
        ends[names[series]] = find_end(*place, style)
        draw_line(
            axes,
            *place,
            (line["images_per_s_low"], line["images_per_s_high"]),
            line["num_disturbed"] > 0,
            style,
            counts=(line["num_repeats"], line["num_failed"]),
            repeats=(own["num_gpus"], own["images_per_s"], own["is_outlier"]),
        )
        first = line.iloc[0]
        if is_baseline(line).iloc[0] and first["num_gpus"] < counts[-1]:
            ideal = first["images_per_s_median"] / first["num_gpus"] * counts
            axes.plot(counts, ideal, color=style["color"], linestyle=":", alpha=0.6)
            has_ideal = True
    bands = draw_bands(axes, rows, "images_per_s_median", brackets, styles)
    ends |= {names[series]: end for series, end in bands.items()}
    mark_counts(axes, counts)
    axes.set_ylabel(f"{find_unit(rows)}/s over all devices")
    if has_ideal:
        axes.annotate("dotted: ideal", (0.02, 0.96), xycoords="axes fraction", color=GREY, fontsize=9, va="top")
    label_lines(axes, ends)
