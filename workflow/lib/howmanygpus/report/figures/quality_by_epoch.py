"""Quality on the test split by epoch, compared with that of a guess by the frequency of the classes."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from howmanygpus.report.figures.helpers.panels import SETTING, list_panels, list_settings
from howmanygpus.report.metrics import name_metric
from howmanygpus.report.rows import is_real, name_count, name_real_run, name_series
from howmanygpus.report.style import (
    GREY,
    SEE_GRID,
    add_headline,
    arrange,
    choose_styles,
    draw_empty_figure,
    draw_in_grey,
    has_families,
    label_lines,
    make_panels,
    name_guess,
    note_left_out,
    note_rates,
    thin_blocks,
)

TITLE = "Test quality by epoch"
CATEGORY = "Time and price"
TABLES = ("evaluations", "runs")


def draw(evaluations: pd.DataFrame, runs: pd.DataFrame) -> Figure:
    """Draw one panel per device count and batch size: means of the repeats, and bars from minimum to maximum.

    With many series, each family of frameworks has panels of its own, with the others in grey.
    """
    real = evaluations[is_real(evaluations) & evaluations["quality"].notna()]
    if real.empty:
        return draw_empty_figure(f"No {name_real_run(runs)} has been evaluated; {SEE_GRID}.")
    real = real.assign(series=name_series(real, runs))
    styles = choose_styles(real["series"])
    settings = [(title, rows, ()) for title, rows in list_settings(real)]
    blocks, left_out = thin_blocks(list_panels(real, settings), has_families(real))
    columns, placed = arrange(blocks)
    figure, axes = make_panels([panel.title if panel else None for panel in placed], max_columns=columns)
    limits = compute_limits(real)
    for panel, drawn in zip(axes, filter(None, placed), strict=True):
        panel.set_ylim(*limits)
        panel.set_xlim(0, 1.03 * real["epoch"].max())
        means = drawn.others.groupby(["series", "epoch"], as_index=False)["quality"].mean()
        draw_in_grey(panel, means, "epoch", "quality")
        draw_means(panel, drawn.rows, styles)
    add_headline(figure, write_headline(real))
    note_left_out(axes[0], left_out, "evaluations")
    return figure


def write_headline(real: pd.DataFrame) -> str:
    """Return the range of the last qualities of all configurations, as means of their repeats."""
    last = real[real["epoch"] == real["epoch"].max()]
    means = last.groupby(["series", *SETTING])["quality"].mean()
    metric, epochs = name_metric(last["metric"].iloc[0]), name_count(int(last["epoch"].iloc[0]), "epoch")
    low, high = f"{means.min():.3g}", f"{means.max():.3g}"
    return f"After {epochs}, test {metric} is {low if low == high else f'{low} to {high}'}"


def compute_limits(rows: pd.DataFrame) -> tuple[float, float]:
    """Return limits of the y axis that all panels share: from zero to beyond the largest value that is drawn."""
    values = rows[["quality", "quality_of_guess"]].astype(float).to_numpy()
    return 0.0, 1.05 * float(values[np.isfinite(values)].max())


def draw_means(axes: Axes, rows: pd.DataFrame, styles: dict) -> None:
    metric = rows["metric"].iloc[0]
    axes.set_xlabel("epoch")
    note_rates(axes, rows["series"])
    axes.set_ylabel(f"test {name_metric(metric)}")
    axes.xaxis.get_major_locator().set_params(integer=True)
    ends = {}
    guess = float(rows["quality_of_guess"].astype(float).mean())
    if np.isfinite(guess):
        axes.axhline(guess, color=GREY, linewidth=0.8)
        ends[f"{name_guess(metric)}: {guess:.2g}"] = (axes.get_xlim()[1], guess, GREY)
    for series, own in rows.groupby("series"):
        line = own.groupby("epoch")["quality"].agg(["mean", "min", "max"])
        # Rounding may move the mean of equal values beyond them, and matplotlib refuses bars of negative length.
        spread = [(line["mean"] - line["min"]).clip(lower=0), (line["max"] - line["mean"]).clip(lower=0)]
        axes.errorbar(line.index, line["mean"], yerr=spread, capsize=2, **(styles[series] | {"markersize": 4}))
        ends[series] = (line.index[-1], line["mean"].iloc[-1], styles[series]["color"])
    label_lines(axes, ends)
