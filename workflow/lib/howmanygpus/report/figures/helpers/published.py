"""Code shared by the figures that show published and measured numbers, each in panels of their own."""

from textwrap import fill

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from howmanygpus.report.figures.helpers.panels import End, draw_line, find_end
from howmanygpus.report.style import GREY, choose_styles

WIDTH = 60
"""Characters of a line of a panel's title."""
NO_YEAR = "(year not stated)"
NOTHING_MEASURED = "nothing measured yet"
SIZE = (5.4, 3.5)
"""Size of a panel with lines, in inches."""
BAR = 0.62
"""Height of a bar as part of its row."""
Group = tuple[str, pd.DataFrame, dict[str, dict]]
"""Title, rows and the style of each series."""


def title_published(hardware: str, year: str | float, more: str) -> str:
    """Return the title of a panel of published numbers, such as "published 2018: V100" with a second line.

    year: as in sources.tsv, or a number if pandas has read it as one.
    """
    words = year if isinstance(year, str) else NO_YEAR if pd.isna(year) else f"{year:.0f}"
    return _join(f"published {words}: {hardware}", more)


def title_measured(runs: pd.DataFrame, device: str, more: str) -> str:
    """Return the title of a panel of measured numbers: hardware and year of a device's runs, from the table `runs`."""
    own = runs[(runs["device"] == device) & runs["started_at"].notna()]
    models = ", ".join(sorted(set(own["device_model"].dropna().astype(str)))) or device
    years = sorted({str(moment)[:4] for moment in own["started_at"]})
    return _join(f"measured {' and '.join(years)}: {models}", more)


def make_rows(titles: list[str], counts: list[int], num_columns: int) -> tuple[Figure, list[list[Axes]]]:
    """Create a figure with one row of panels per title, as high as its bars need. Panels of a row share their bars."""
    heights = [1.2 + 0.3 * count for count in counts]
    size, ratios = (9.6, sum(heights)), {"height_ratios": heights}
    figure, grid = plt.subplots(
        len(titles), num_columns, figsize=size, squeeze=False, sharey="row", layout="constrained", gridspec_kw=ratios
    )
    for row, title in zip(grid, titles, strict=True):
        row[0].set_title(title)
    return figure, [list(row) for row in grid]


def name_bars(axes: Axes, rows: pd.DataFrame) -> None:
    """Name the rows of a panel by series, devices and batch, the first on top."""
    columns = (rows[name] for name in ("series", "num_gpus", "global_batch_size"))
    names = [f"{series}, {describe_batch(*sizes)}" for series, *sizes in zip(*columns, strict=True)]
    axes.set_yticks(range(len(names))[::-1], names)
    axes.set_ylim(-0.6, len(names) - 0.4)


def draw_lines(
    axes: Axes, rows: pd.DataFrame, x: str, y: str, styles: dict[str, dict], top: float | None = None
) -> dict[str, End]:
    """Draw one line per series over its places, with bars from `low` to `high` if they are known.

    top: upper end of a bar that has none. Returns the right end of each line.
    """
    ends: dict[str, End] = {}
    for series, line in rows.sort_values(x).groupby("series", sort=False):
        low, high = (line[name].astype(float) for name in ("low", "high"))
        high = high if top is None else high.fillna(top)
        bars = (low, high) if low.notna().all() and high.notna().all() else None
        place = line[x].astype(int), line[y].astype(float)
        draw_line(axes, *place, bars, line["is_disturbed"].astype(bool), styles[str(series)])
        ends[str(series)] = find_end(*place, styles[str(series)])
    return ends


def _join(first: str, second: str) -> str:
    return f"{fill(first, WIDTH)}\n{fill(second, WIDTH)}"


def name_published(table: pd.DataFrame) -> pd.Series:
    """Return the name that decides the style of each row's series: its framework here, and its own name."""
    return table["framework"].astype(object).fillna("other") + " " + table["series"]


def style_published(table: pd.DataFrame) -> dict[str, dict]:
    """Return colour, marker and line of each series by its own name. Frameworks have the colours of other figures.

    A series whose source names no framework is grey, because any other colour would be that of a framework.
    """
    looks, names = choose_styles(name_published(table)), name_published(table)
    styles = {series: looks[name] for series, name in zip(table["series"], names, strict=True)}
    without = set(table["series"][table["framework"].isna()])
    return {series: style | ({"color": GREY} if series in without else {}) for series, style in styles.items()}


def describe_batch(num_gpus: float, global_batch_size: float) -> str:
    """Return devices and images per device, such as "4 x 64"; the devices alone if the batch is not known."""
    return f"{num_gpus:g}" if pd.isna(global_batch_size) else f"{num_gpus:g} x {global_batch_size / num_gpus:g}"
