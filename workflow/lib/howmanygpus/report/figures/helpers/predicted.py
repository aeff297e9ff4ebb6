"""Hatched bands of what is predicted beyond the measured counts. They have no markers, which measured values have."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

from howmanygpus.report.columns import LINE
from howmanygpus.report.style import add_note

NOTE = "hatched, dashed: predicted, not measured"
EDGE = (0, (3, 1.5))
HATCH = "////"


def choose_look(colour: str) -> dict:
    """Return how an area of predictions is filled, in the colour of the measured series."""
    return {"facecolor": to_rgba(colour, 0.08), "edgecolor": to_rgba(colour, 0.45), "hatch": HATCH}


def list_brackets(predictions: pd.DataFrame | None, name: str) -> pd.DataFrame:
    """Return the rows with a bracket of a quantity beyond the measured counts, with its ends as `low` and `high`.

    predictions: the table of that name; None for a study that predicts nothing. name: such as images_per_s. Several
    numbers of nodes for a device count share a row, from the lowest to the highest end.
    """
    if predictions is None:
        return pd.DataFrame(columns=[*LINE, "num_gpus", "threshold", "low", "high"])
    beyond = predictions[predictions["measured_images_per_s"].isna() & predictions[f"{name}_low"].notna()]
    known = beyond.assign(low=beyond[f"{name}_low"].astype(float), high=beyond[f"{name}_high"].astype(float))
    ends = {"threshold": ("threshold", "first"), "low": ("low", "min"), "high": ("high", "max")}
    return known.groupby([*LINE, "num_gpus"], as_index=False, sort=False).agg(**ends)


def draw_bands(axes: Axes, rows: pd.DataFrame, y: str, brackets: pd.DataFrame, styles: dict) -> dict:
    """Draw the band of each measured curve from its last point on. Returns the right end of each, by its series.

    rows: the measured ones, with `series`; y: the column that is drawn of them. brackets: of list_brackets.
    """
    ends = {}
    for _, line in rows.groupby(LINE, sort=False):
        own = brackets[(brackets[LINE] == line.iloc[0][LINE]).all(axis=1)].sort_values("num_gpus")
        if own.empty:
            continue
        last = line.loc[line["num_gpus"].idxmax()]
        colour = styles[last["series"]]["color"]
        counts, low, high = (own[name].to_numpy(float) for name in ("num_gpus", "low", "high"))
        axes.vlines(counts, low, high, color=colour, linestyle=EDGE, linewidth=1.2)
        ends[last["series"]] = counts[-1], float(np.sqrt(low[-1] * high[-1])), colour
        if np.isfinite(last[y]):
            counts = np.append(last["num_gpus"], counts)
            low, high = (np.append(last[y], each) for each in (low, high))
        axes.fill_between(counts, low, high, linewidth=0, zorder=0.5, **choose_look(colour))
        for end in (low, high):
            axes.plot(counts, end, color=colour, linestyle=EDGE, linewidth=1)
    if ends:
        add_note(axes, NOTE, is_shared=True)
    return ends


def make_logarithmic(axes: Axes, low: float, high: float) -> None:
    """Make the y axis logarithmic, so that measured rates can be read below predicted ones that are far higher."""
    axes.set_yscale("log")
    axes.set_ylim(low, high)
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
