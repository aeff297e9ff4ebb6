"""The cost of real images: throughput on each form of them, and on random images of the same shape."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from howmanygpus.measure.spec import RANDOM_INPUTS
from howmanygpus.report.rows import name_count, name_series
from howmanygpus.report.style import GREY, draw_empty_figure, make_panels, mark_disturbed

TITLE = "Real against synthetic input"
CATEGORY = "Scaling and why"
TABLES = ("runs",)
COMPARES = "inputs"
COLOURS = {"resident": ("#009E73", "black"), "synthetic": ("#56B4E9", "black"), "arrays": ("#0072B2", "white")}
COLOURS |= {"jpeg": ("#E69F00", "black"), "png": ("#D55E00", "black")}
"""Colours of each input's bar and of the name on it. Inputs are compared with the first one of the study."""
NUM_STATISTICS = 4
BAR = 0.8
"""Fraction of the height of a row that its bars fill."""


def draw(runs: pd.DataFrame) -> Figure:
    """Draw one panel per batch size, with one bar per series, device count and input."""
    rates = compare_inputs(runs)
    if rates.empty:
        return draw_empty_figure("No configuration has completed on more than one input.")
    sizes, num_inputs = list(rates.groupby("per_device_batch_size")), count_inputs(rates)
    height = 0.9 + 0.275 * num_inputs * max(len(rows) for _, rows in sizes)
    figure, axes = make_panels(
        [f"{name_count(size, 'image')} per device" for size, _ in sizes], (6.2, height), max_columns=2
    )
    fastest = max(rates[source]["max"].max() for source in COLOURS if source in rates)
    for panel, (_, rows) in zip(axes, sizes, strict=True):
        draw_bars(panel, rows, fastest)
    return figure


def compare_inputs(runs: pd.DataFrame) -> pd.DataFrame:
    """Return median, minimum and maximum rate of configurations with two inputs or more; columns (input, statistic)."""
    runs = lend_random_images(runs)
    runs = runs.assign(series=name_series(runs.assign(input="")))
    keys = ["per_device_batch_size", "series", "num_gpus"]
    configurations = runs.assign(disturbed=runs["disturbed"].eq(True)).groupby([*keys, "input"])
    rates = configurations["images_per_s"].agg(["median", "min", "max"])
    rates["disturbed"] = configurations["disturbed"].sum().where(rates["median"].notna())
    rates = rates.unstack("input").swaplevel(axis=1)
    rates = rates[[source for source in COLOURS if source in rates]]
    return rates.dropna(axis=1, how="all").dropna(thresh=2 * NUM_STATISTICS).reset_index()


def lend_random_images(runs: pd.DataFrame) -> pd.DataFrame:
    """Add the first variant's runs on random images to the variants that have none.

    Frameworks' own loaders hand over no random images. Without any loading, the first variant does the same work.
    """
    is_random = runs["input"].isin(RANDOM_INPUTS) & runs["images_per_s"].notna()
    of_first = runs[is_random & runs["variant"].eq(runs["variant"].iloc[0] if len(runs) else None)]
    own = set(runs.loc[is_random, ["framework", "variant"]].itertuples(index=False, name=None))
    lent = [
        of_first[of_first["framework"].eq(framework)].assign(variant=variant)
        for framework, variant in dict.fromkeys(runs[["framework", "variant"]].itertuples(index=False, name=None))
        if (framework, variant) not in own
    ]
    return pd.concat([runs, *lent], ignore_index=True)


def count_inputs(rates: pd.DataFrame) -> int:
    return sum(source in rates for source in COLOURS)


def draw_bars(axes: Axes, rows: pd.DataFrame, fastest: float) -> None:
    rows = rows.sort_values(["series", "num_gpus"], ascending=False).reset_index(drop=True)
    sources = [source for source in COLOURS if source in rows]
    axes.set_xlabel(f"images/s over all devices, and percentage of {sources[0]}")
    height = BAR / len(sources)
    for position, source in enumerate(sources):
        colour, ink = COLOURS[source]
        rates, places = rows[source], rows.index + BAR / 2 - (position + 0.5) * height
        spread = [rates["median"] - rates["min"], rates["max"] - rates["median"]]
        axes.barh(places, rates["median"], height=0.95 * height, color=colour, xerr=spread, ecolor=GREY, capsize=3)
        mark_disturbed(axes, rates["median"], pd.Series(places, index=rates.index), rates["disturbed"] > 0)
        shares = rates["median"] / rows[sources[0]]["median"]
        for place, (_, rate), share in zip(places, rates.iterrows(), shares, strict=True):
            if pd.notna(rate["median"]):
                axes.text(0.01 * fastest, place, source, va="center", color=ink, fontsize=9)
                if source != sources[0] and pd.notna(share):
                    axes.text(rate["max"] + 0.035 * fastest, place, f"{share:.0%}", va="center", color="#555555")
    plural = {1: "device"}
    counts = rows["num_gpus"].astype(int)
    labels = [
        f"{series}, {count} {plural.get(count, 'devices')}"
        for series, count in zip(rows["series"], counts, strict=True)
    ]
    axes.set_yticks(rows.index, labels)
    axes.set_xlim(0, 1.2 * fastest)
