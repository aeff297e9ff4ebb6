"""What real images cost: throughput on real input beside throughput on random arrays of the same shape."""

import pandas as pd
from matplotlib.figure import Figure

from benchreport.style import GREY, make_panels, name_series, say_nothing_to_show

TITLE = "Real against synthetic input"
TABLES = ("runs",)
COMPARES = "inputs"
INPUT_COLOURS = {"synthetic": "#56B4E9", "arrays": "#0072B2"}


def draw(runs: pd.DataFrame) -> Figure:
    rates = compare_inputs(runs)
    if rates.empty or "synthetic" not in rates or "arrays" not in rates:
        return say_nothing_to_show("No configuration has completed on both real and synthetic input.")
    sizes = list(rates.groupby("per_device_batch_size"))
    height = 0.9 + 0.55 * max(len(rows) for _, rows in sizes)
    figure, axes = make_panels([f"{size} images per device" for size, _ in sizes], (6.2, height), max_columns=2)
    for panel, (_, rows) in zip(axes, sizes, strict=True):
        draw_panel(panel, rows, rates["synthetic"]["max"].max())
    return figure


def compare_inputs(runs: pd.DataFrame) -> pd.DataFrame:
    """Median, least and greatest rate of each configuration measured on both inputs; columns (input, statistic)."""
    runs = runs.assign(series=name_series(runs))
    keys = ["per_device_batch_size", "series", "num_gpus"]
    rates = runs.groupby([*keys, "input"])["images_per_s"].agg(["median", "min", "max"]).unstack("input")
    rates = rates.swaplevel(axis=1)
    return rates[[source for source in INPUT_COLOURS if source in rates]].dropna().reset_index()


def draw_panel(axes, rows: pd.DataFrame, fastest: float) -> None:
    rows = rows.sort_values(["series", "num_gpus"], ascending=False).reset_index(drop=True)
    top = len(rows) - 1
    for offset, source, name in ((-0.2, "arrays", "real"), (0.2, "synthetic", "synthetic")):
        rates, places = rows[source], rows.index + offset
        spread = [rates["median"] - rates["min"], rates["max"] - rates["median"]]
        axes.barh(
            places, rates["median"], height=0.38, color=INPUT_COLOURS[source], xerr=spread, ecolor=GREY, capsize=3
        )
        colour = "white" if source == "arrays" else "black"
        axes.text(0.01 * fastest, top + offset, name, va="center", color=colour, fontsize=9)
    for position, row in rows.iterrows():
        text = f"real is {row['arrays']['median'] / row['synthetic']['median']:.0%}"
        end = max(row["arrays"]["max"], row["synthetic"]["max"])
        axes.text(end + 0.02 * fastest, position, text, va="center", color="#555555")
    plural = {1: "device"}
    counts = rows["num_gpus"].astype(int)
    labels = [
        f"{series}, {count} {plural.get(count, 'devices')}"
        for series, count in zip(rows["series"], counts, strict=True)
    ]
    axes.set_yticks(rows.index, labels)
    axes.set_xlim(0, 1.3 * fastest)
    axes.set_xlabel("images/s over all devices")
