"""Bandwidth of the all-reduce alone by device count, without any training."""

import textwrap

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from howmanygpus.report.outcomes import name_nodes
from howmanygpus.report.style import (
    MARKERS,
    add_note,
    draw_empty_figure,
    label_lines,
    make_panels,
    mark_counts,
)

TITLE = "All-reduce bandwidth"
CATEGORY = "More"
TABLES = ("allreduce",)
NEEDS_PREFLIGHT = True
LIGHTEST_GREY = 0.6
"""Grey of the smallest arrays; the largest are black. Colours are reserved for frameworks."""
GRADIENTS = "gradients of"
WIDTH = 56
"""Characters of a line below a panel."""


def draw(allreduce: pd.DataFrame) -> Figure:
    """Draw one panel per kind of device, with one line per array, and name the nodes below it.

    The array of the gradients' size is dashed.

    If some device count was measured on several numbers of nodes, each number of nodes has panels of its own.
    """
    if allreduce.empty:
        return draw_empty_figure("No study uses more than one device.")
    allreduce = allreduce.assign(array=name_arrays(allreduce))
    arrays = list(allreduce.sort_values("size_mib")["array"].unique())
    greys = [str(grey) for grey in np.linspace(0, LIGHTEST_GREY, len(arrays)).round(3)[::-1]]
    styles = {
        array: {"color": grey, "marker": marker, "linestyle": "--" if GRADIENTS in array else "-"}
        for array, grey, marker in zip(arrays, greys, MARKERS, strict=False)
    }
    is_spread = allreduce.groupby(["device", "num_gpus"])["num_nodes"].nunique().max() > 1
    placement = allreduce["num_nodes"].map(name_nodes) if is_spread else ""
    panels = list(allreduce.assign(placement=placement).groupby(["device", "placement"]))
    figure, axes = make_panels([f"{device}, {nodes}" if nodes else device for (device, nodes), _ in panels])
    for panel, (_, rows) in zip(axes, panels, strict=True):
        ends = {}
        for array, line in rows.groupby("array", sort=False):
            panel.plot(line["num_gpus"], line["bus_gb_per_s"], **styles[array])
            place = (line["num_gpus"].iloc[-1], line["bus_gb_per_s"].iloc[-1])
            ends[array] = (*place, styles[array]["color"])
        mark_counts(panel, rows["num_gpus"])
        panel.set_ylim(0, 1.08 * (allreduce if is_spread else rows)["bus_gb_per_s"].max())
        panel.set_xlabel("devices")
        add_note(panel, list_nodes(rows))
        panel.set_ylabel("bus bandwidth (GB/s)")
        label_lines(panel, ends)
    return figure


def name_arrays(allreduce: pd.DataFrame) -> list[str]:
    """Return the name of each row's array: its size, and whose gradients have this size."""
    pairs = zip(allreduce["size_mib"], allreduce["gradients_of"], strict=True)
    return [f"{size:.3g} MiB" + (f", {GRADIENTS} {model}" if pd.notna(model) else "") for size, model in pairs]


def list_nodes(rows: pd.DataFrame) -> str:
    """Return one line per set of nodes, with the device counts that were measured on it."""
    lines = []
    for nodes, measured in rows.fillna({"nodes": "unknown"}).groupby("nodes", sort=False):
        counts = " and ".join(str(count) for count in sorted(measured["num_gpus"].unique()))
        lines.append(textwrap.fill(f"{counts} devices: {nodes}", WIDTH))
    return "\n".join(lines)
