"""Training time to each threshold by device count; what never reached one stands at the top, as such."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from benchreport.style import GREY, label_lines, make_panels, mark_counts, name_series, say_nothing_to_show, style_of
from benchreport.thresholds import summarize_time_to_accuracy

TITLE = "Time to accuracy by device count"
TABLES = ("time_to_accuracy",)


def draw(time_to_accuracy: pd.DataFrame) -> Figure:
    if time_to_accuracy.empty:
        return say_nothing_to_show("No run on real images has completed yet.")
    summary = summarize_time_to_accuracy(time_to_accuracy)
    summary["series"] = name_series(summary)
    styles = style_of(summary["series"])
    panels = list(summary.groupby(["threshold", "per_device_batch_size"]))
    metric = summary["metric"].iloc[0]
    titles = [f"test {metric} {threshold:g}, {size} per device" for (threshold, size), _ in panels]
    figure, axes = make_panels(titles, max_columns=summary["per_device_batch_size"].nunique())
    finite = summary.loc[np.isfinite(summary["time_s_max"]), "time_s_max"]
    top = 1.15 * finite.max() if len(finite) else 1.0
    for panel, (_, rows) in zip(axes, panels, strict=True):
        draw_panel(panel, rows, summary["num_gpus"], styles, top)
    return figure


def draw_panel(axes, rows: pd.DataFrame, counts: pd.Series, styles: dict, top: float) -> None:
    ends = {}
    for position, (series, line) in enumerate(rows.sort_values("num_gpus").groupby("series")):
        style = styles[series]
        reached, never = line[np.isfinite(line["time_s_median"])], line[np.isinf(line["time_s_median"])]
        if len(reached):
            median, upper = reached["time_s_median"], reached["time_s_max"].clip(upper=top)
            axes.errorbar(
                reached["num_gpus"], median, yerr=[median - reached["time_s_min"], upper - median], capsize=4, **style
            )
            ends[series] = (reached["num_gpus"].iloc[-1], median.iloc[-1], style["color"])
        for _, cell in never.iterrows():
            text = f"{series}: {cell['num_reached']} of {cell['num_repeats']} reached it"
            place = (cell["num_gpus"], 1 - 0.08 * (position + 0.6))
            axes.annotate(
                f"\N{MULTIPLICATION SIGN} {text}", place, xycoords=("data", "axes fraction"), color=style["color"],
                fontsize=8, va="center", ha="left" if cell["num_gpus"] == counts.min() else "right",
            )  # fmt: skip
    mark_counts(axes, counts)
    axes.set_ylim(0, top)
    axes.set_xlabel("devices")
    axes.set_ylabel("training time (s)")
    if not ends:
        axes.annotate("reached by none", (0.5, 0.5), xycoords="axes fraction", ha="center", color=GREY)
    label_lines(axes, ends)
