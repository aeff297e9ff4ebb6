"""Published prices of a training beside those of the measured runs, each in a panel of its own."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from howmanygpus.report.figures.helpers.published import (
    BAR,
    make_rows,
    name_bars,
    style_published,
    title_measured,
    title_published,
)
from howmanygpus.report.figures.price import describe_target, draw_prices, summarize_prices
from howmanygpus.report.metrics import name_metric
from howmanygpus.report.style import add_note

TITLE = "Price, published and measured"
CATEGORY = "More"
TABLES = ("published", "runs", "time_to_accuracy")
NEEDS_PUBLISHED = ("price",)
NO_PRICE = "nothing measured that has a price"


def draw(published: pd.DataFrame, runs: pd.DataFrame, time_to_accuracy: pd.DataFrame) -> Figure:
    """Draw one panel per source and hardware, and one per device of the measured runs that have a price."""
    priced = published[published["price"].notna()]
    groups = [
        (title_published(hardware, rows["year"].iloc[0], "price, training time and quality"), rows)
        for (_, hardware), rows in priced.groupby(["source", "hardware"], sort=False)
    ]
    measured = [
        (title_measured(runs, device, describe_target(rows)), rows.reset_index(drop=True))
        for device, rows in summarize_prices(runs, time_to_accuracy).groupby("device", sort=False)
    ]
    titles, counts = zip(*((title, len(rows)) for title, rows in [*groups, *measured]), strict=True)
    figure, axes = make_rows(list(titles), list(counts), num_columns=1)
    for (panel,), (_, rows) in zip(axes, groups, strict=False):
        draw_published(panel, rows)
    for (panel,), (_, rows) in zip(axes[len(groups) :], measured, strict=True):
        draw_prices(panel, rows)
    if not measured:
        add_note(axes[0][0], NO_PRICE)
    return figure


def draw_published(axes: Axes, rows: pd.DataFrame) -> None:
    rows = rows.reset_index(drop=True)
    styles, places = style_published(rows), rows.index[::-1]
    axes.barh(places, rows["price"], height=BAR, color=[styles[series]["color"] for series in rows["series"]])
    for place, (_, row) in zip(places, rows.iterrows(), strict=True):
        text = f"{row['price']:g}, {row['duration_s']:,.0f} s"
        if pd.notna(row["quality"]):
            text += f", {name_metric(row['quality_metric'])} {row['quality']:.4g}"
        axes.annotate(text, (row["price"], place), (8, 0), textcoords="offset points", va="center", fontsize=9)
    name_bars(axes, rows)
    axes.set_xlim(0, 1.75 * rows["price"].max())
    axes.set_xlabel(f"price of one run ({', '.join(sorted(set(rows['currency'])))})")
