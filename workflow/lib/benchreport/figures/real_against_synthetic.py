"""What real images cost: throughput on real input beside throughput on random arrays of the same shape."""

import pandas as pd
from matplotlib.figure import Figure

from benchreport.style import GREY, make_panels, name_series, say_nothing_to_show

TITLE = "Real against synthetic input"
TABLES = ("runs",)
INPUT_COLOURS = {"synthetic": "#56B4E9", "arrays": "#0072B2"}


def draw(runs: pd.DataFrame) -> Figure:
    rates = compare_inputs(runs)
    if rates.empty:
        return say_nothing_to_show("No configuration has completed on both real and synthetic input.")
    sizes = list(rates.groupby("per_device_batch_size"))
    height = 0.9 + 0.55 * max(len(rows) for _, rows in sizes)
    figure, axes = make_panels([f"{size} images per device" for size, _ in sizes], (6.2, height), max_columns=2)
    for panel, (_, rows) in zip(axes, sizes, strict=True):
        draw_panel(panel, rows, rates["synthetic"].max())
    return figure


def compare_inputs(runs: pd.DataFrame) -> pd.DataFrame:
    """Median rates by configuration, with a column per input, where both were measured."""
    runs = runs.assign(series=name_series(runs))
    keys = ["per_device_batch_size", "series", "num_gpus"]
    rates = runs.pivot_table(index=keys, columns="input", values="images_per_s", aggfunc="median")
    return rates.reindex(columns=list(INPUT_COLOURS)).dropna().reset_index()


def draw_panel(axes, rows: pd.DataFrame, fastest: float) -> None:
    rows = rows.sort_values(["series", "num_gpus"], ascending=False).reset_index(drop=True)
    for offset, source in ((-0.2, "arrays"), (0.2, "synthetic")):
        axes.barh(rows.index + offset, rows[source], height=0.38, color=INPUT_COLOURS[source])
    top = len(rows) - 1
    axes.text(rows["synthetic"][top] * 0.02, top + 0.2, "synthetic", va="center", color="black", fontsize=9)
    axes.text(rows["arrays"][top] * 0.02, top - 0.2, "real", va="center", color="white", fontsize=9)
    for position, row in rows.iterrows():
        text = f"real is {row['arrays'] / row['synthetic']:.0%}"
        axes.text(max(row["arrays"], row["synthetic"]) + 0.01 * fastest, position, text, va="center", color=GREY)
    labels = [
        f"{row['series']}, {row['num_gpus']:.0f} device{'s' if row['num_gpus'] > 1 else ''}"
        for _, row in rows.iterrows()
    ]
    axes.set_yticks(rows.index, labels)
    axes.set_xlim(0, 1.25 * fastest)
    axes.set_xlabel("images/s over all devices")
