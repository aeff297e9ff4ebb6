"""What the devices did in the traced steps: a strip per traced series, its steps, and its waits for input."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from howmanygpus.report.columns import BATCH, IDENTITY, PLACE, SERIES, list_columns
from howmanygpus.report.rows import name_count, name_series
from howmanygpus.report.style import GREY, RING, add_note, draw_empty_figure, get_look, make_panels, mark_disturbed

TITLE = "Traces: when the devices ran nothing"
CATEGORY = "More"
TABLES = ("traces", "trace_strips")
NEEDS = "trace"
KEYS = list_columns(SERIES, PLACE, BATCH)
STRIP = 0.62
"""Height of a strip as part of its row; the bar of waits for input is below it."""
WHOLE_RING = 0.022
"""Place of a ring that begins with the strip, as part of its width."""


def draw(traces: pd.DataFrame, trace_strips: pd.DataFrame) -> Figure:
    """Draw one panel for the fewest and one for the most devices, with the first traced repeat of each series."""
    traced = traces[traces["busy_frac"].notna()]
    if traced.empty:
        reasons = sorted(set(traces["problem"].dropna().astype(str)))
        return draw_empty_figure("No run has a trace" + (f": {reasons[0]}" if reasons else " yet") + ".")
    traced = traced.assign(series=name_strips(traced)).drop_duplicates(KEYS)
    counts = sorted({traced["num_gpus"].min(), traced["num_gpus"].max()})
    panels = [traced[traced["num_gpus"] == count].sort_values("series") for count in counts]
    height = 1.1 + 0.5 * max(map(len, panels))
    titles = [name_count(count, "device") for count in counts]
    figure, axes = make_panels(titles, (8.4, height), max_columns=1)
    for panel, rows in zip(axes, panels, strict=True):
        draw_strips(panel, rows, trace_strips)
    return figure


def name_strips(traced: pd.DataFrame) -> pd.Series:
    """Return the name of each strip, with the batch if it varies."""
    names, sizes = name_series(traced), traced["per_device_batch_size"]
    return names if sizes.nunique() == 1 else names + " x " + sizes.astype(int).astype(str)


def draw_strips(axes: Axes, rows: pd.DataFrame, strips: pd.DataFrame) -> None:
    names = IDENTITY
    for place, (_, row) in enumerate(rows.iterrows()):
        draw_strip(axes, place, strips[(strips[names] == row[names]).all(axis=1)], row)
    middles = pd.Series([place + STRIP / 2 for place in range(len(rows))], rows.index)
    axes.set_ylim(len(rows) - 0.05, -0.05)
    axes.set_xlim(0, 1)
    axes.set_yticks(middles, list(rows["series"]))
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "25", "50", "75", "100"])
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    steps = name_count(int(rows["num_steps"].max()), "step")
    axes.set_xlabel(f"time within the traced window of {steps}, in % (strips have windows of different lengths)")
    add_note(axes, "height: part of the time in which the device ran something; red below it: it waited for input")
    mark_disturbed(axes, 0 * middles + WHOLE_RING, middles, rows["disturbed"].eq(True))


def draw_strip(axes: Axes, place: int, parts: pd.DataFrame, row: pd.Series) -> None:
    """parts: the rows of the table `trace_strips` of one run, whose row of the table `traces` is `row`."""
    colour = get_look(str(row["framework"]))[0]
    left, foot = parts["time_s"] / row["window_s"], place + STRIP
    edges, below = [*left, 1.0], foot + 0.04
    axes.barh(place, 1, STRIP, align="edge", color=GREY, alpha=0.12, linewidth=0)
    # One outline each: hundreds of bars would make the report large.
    axes.stairs(foot - STRIP * parts["busy_frac"], edges, baseline=foot, fill=True, color=colour)
    axes.stairs(below + 0.16 * parts["input_wait_frac"], edges, baseline=below, fill=True, color=RING)
    ends = left[parts["step"].diff() > 0]
    axes.vlines(ends, place - 0.04, place + STRIP + 0.04, color="black", linewidth=0.7)
    step, gap = write_s(row["step_s_traced"]), write_s(row["gap_s_median"])
    text = f"ran nothing {row['idle_frac']:.0%}\nstep {step}, gap {gap}"
    axes.annotate(text, (1.01, place + STRIP / 2), va="center", fontsize=9, annotation_clip=False)


def write_s(seconds: float) -> str:
    """Write a time with two digits, such as `4.2 ms` and `0.31 s`."""
    if seconds >= 0.1:
        return f"{seconds:.2g} s"
    return f"{seconds * 1e3:.2g} ms" if seconds >= 1e-4 else f"{seconds * 1e6:.2g} µs"
