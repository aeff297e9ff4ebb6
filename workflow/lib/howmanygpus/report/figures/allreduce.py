"""Bandwidth of the all-reduce alone by device count: what the network can do without any training."""

import pandas as pd
from matplotlib.figure import Figure

from howmanygpus.report.style import label_lines, make_panels, mark_counts, say_nothing_to_show, style_of

TITLE = "All-reduce bandwidth"
TABLES = ("allreduce",)
NEEDS_PREFLIGHT = True


def draw(allreduce: pd.DataFrame) -> Figure:
    """Draw one panel per kind of device, with one line per array size."""
    if allreduce.empty:
        return say_nothing_to_show("No study uses more than one device.")
    sizes = [f"{size} MiB" for size in sorted(allreduce["size_mib"].unique())]
    styles = dict(zip(sizes, style_of([str(i) for i in range(len(sizes))]).values(), strict=True))
    panels = list(allreduce.groupby("device"))
    figure, axes = make_panels([device for device, _ in panels])
    for panel, (_, rows) in zip(axes, panels, strict=True):
        ends = {}
        for size, line in rows.groupby("size_mib"):
            name = f"{size} MiB"
            panel.plot(line["num_gpus"], line["bus_gb_per_s"], **styles[name])
            ends[name] = (line["num_gpus"].iloc[-1], line["bus_gb_per_s"].iloc[-1], styles[name]["color"])
        mark_counts(panel, rows["num_gpus"])
        panel.set_ylim(0, 1.08 * rows["bus_gb_per_s"].max())
        panel.set_xlabel("devices")
        panel.set_ylabel("bus bandwidth (GB/s)")
        label_lines(panel, ends)
    return figure
