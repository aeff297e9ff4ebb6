"""Quality on the test split by epoch, compared with that of a guess by the frequency of the classes."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from howmanygpus.report.metrics import name_metric
from howmanygpus.report.rows import is_real, name_panel, name_real_run, name_series
from howmanygpus.report.style import (
    GREY,
    SEE_GRID,
    arrange,
    choose_styles,
    draw_empty_figure,
    draw_in_grey,
    label_lines,
    make_panels,
    name_guess,
    note_rates,
    split_families,
)

TITLE = "Test quality by epoch"
CATEGORY = "Time and cost to target"
TABLES = ("evaluations", "runs")
SETTING = ["num_gpus", "per_device_batch_size"]
"""What the configurations of a panel have in common."""


def draw(evaluations: pd.DataFrame, runs: pd.DataFrame) -> Figure:
    """Draw one panel per device count and batch size: means of the repeats, and bars from minimum to maximum.

    With many series, each family of frameworks has panels of its own, with the others in grey.
    """
    real = evaluations[is_real(evaluations) & evaluations["quality"].notna()]
    if real.empty:
        return draw_empty_figure(f"No {name_real_run(runs)} has been evaluated; {SEE_GRID}.")
    real = real.assign(series=name_series(real, runs))
    styles = choose_styles(real["series"])
    columns, placed = arrange(list_panels(real), max_columns=3)
    figure, axes = make_panels([panel[0] if panel else None for panel in placed], max_columns=columns)
    limits = compute_limits(real)
    for panel, (_, rows, others) in zip(axes, filter(None, placed), strict=True):
        panel.set_ylim(*limits)
        panel.set_xlim(0, 1.03 * real["epoch"].max())
        means = others.groupby(["series", "epoch"], as_index=False)["quality"].mean()
        draw_in_grey(panel, means, "epoch", "quality")
        draw_panel(panel, rows, styles)
    return figure


def list_panels(real: pd.DataFrame) -> list[list[tuple[str, pd.DataFrame, pd.DataFrame]]]:
    """Return title, rows and those of the other families of each panel, by family if there are many series."""
    blocks: list[list[tuple[str, pd.DataFrame, pd.DataFrame]]] = []
    for family, own in split_families(real):
        blocks.append([])
        for keys, rows in own.groupby(SETTING):
            title = name_panel(keys[0], keys[1], rows)
            is_same = (real[SETTING] == list(keys)).all(axis=1)
            others = real[is_same & ~real["series"].isin(own["series"])]
            blocks[-1].append((f"{family}{title}", rows, others))
    return blocks


def compute_limits(rows: pd.DataFrame) -> tuple[float, float]:
    """Return limits of the y axis that all panels share: from zero to beyond the largest value that is drawn."""
    values = rows[["quality", "quality_of_guess"]].astype(float).to_numpy()
    return 0.0, 1.05 * float(values[np.isfinite(values)].max())


def draw_panel(axes: Axes, rows: pd.DataFrame, styles: dict) -> None:
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
