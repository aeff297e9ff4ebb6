"""Rates against the clock on the wall: whether the machine changed while the study was measured."""

import pandas as pd
from matplotlib.figure import Figure

from howmanygpus.report.drift import choose_unit, compute_relative_rates, describe_drift, measure_drift
from howmanygpus.report.rows import choose_inputs, name_series
from howmanygpus.report.style import (
    GREY,
    SEE_GRID,
    add_note,
    choose_styles,
    draw_empty_figure,
    label_lines,
    make_panels,
    mark_disturbed,
    mark_outliers,
)

TITLE = "Drift of the rates over the time of the study"
CATEGORY = "Every run"
TABLES = ("runs",)


def draw(runs: pd.DataFrame) -> Figure:
    """Draw each run as a point: its rate, relative to the median of its configuration, by the time of its start."""
    rates = compute_relative_rates(choose_inputs(runs))
    drift = measure_drift(rates)
    if drift is None:
        return draw_empty_figure(f"No configuration has a rate in two repeats; {SEE_GRID}.")
    unit, per_hour = choose_unit(drift.hours)
    rates = rates.assign(series=name_series(rates), since=rates["hours"] * per_hour)
    styles = choose_styles(rates["series"])
    figure, (axes,) = make_panels(["rate over the median of the configuration"], panel_size=(8.0, 3.8))
    axes.axhline(1, color=GREY, linewidth=1)
    ends = {}
    for series, points in rates.groupby("series"):
        look = {key: styles[series][key] for key in ("color", "marker", "markersize")}
        axes.plot(points["since"], points["relative_rate"], linestyle="none", alpha=0.8, **look)
        ends[series] = (points["since"].iloc[-1], points["relative_rate"].iloc[-1], look["color"])
    axes.set_xlabel(f"{unit} since the first run")
    axes.set_ylabel("relative rate")
    mark_outliers(axes, rates["since"], rates["relative_rate"], rates["is_outlier"])
    mark_disturbed(axes, rates["since"], rates["relative_rate"], rates["disturbed"].eq(True))
    add_note(axes, f"{'a trend' if drift.is_trend else 'no trend'}: {describe_drift(drift)}")
    label_lines(axes, ends)
    return figure
