"""
Utilisation and memory of the devices of one run of each framework over time, with the host's cores and disk.

All runs have one time axis, so that it can be seen who loads, who waits, and who gathers on the first device.
"""

import textwrap
from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.path import Path
from matplotlib.ticker import MaxNLocator, MultipleLocator

from howmanygpus.report.rows import choose_inputs, name_count, name_series
from howmanygpus.report.style import COLOURS, GREY, SEE_GRID, SOLID, draw_empty_figure, get_look, label_lines
from howmanygpus.report.telemetry import HOST
from howmanygpus.report.timelines import PHASE_SERIES, PHASES, SERIES, unpack

TITLE = "Timelines: utilisation and memory of the devices"
CATEGORY = "More"
TABLES = ("runs", "timelines")
MOST_RUNS = 12
"""A study with more series shows one of each framework."""
PERCENT, MIB_PER_GIB = 100.0, 1024.0
PHASE_LOOKS = {"first_step_frac": "#000000", "training_frac": "#C4C4C4", "evaluation_frac": "#AA4499"}
PHASE_LOOKS |= {"checkpoint_frac": "#009E73"}
PHASE_NAMES = {"first_step_frac": "first step", "training_frac": "training", "evaluation_frac": "evaluation"}
PHASE_NAMES |= {"checkpoint_frac": "checkpoints"}
SHADED = ("evaluation_frac", "checkpoint_frac")
"""Phases that pause the training."""
DASHED = (0, (2, 1))
ALL_CPUS = "cpu"
"""Device of older samples: all processes of a run on a node."""
REST = "white: start-up, logs, waiting"
ENDED = "#F1F1F1"
"""Background after the end of a run."""
SPACE_IN = {"left": 0.75, "right": 0.55, "top": 0.35, "bottom": 0.5, "between": 0.2}
"""Space around the runs of a figure and between two rows of them, in inches. The legend is at the top."""
LETTERS_PER_IN, LINE_IN = 14, 0.17
"""Letters of a title that fit on an inch, and the height of its lines, in inches."""
PHASES_IN, GAP_IN = 0.13, 0.14
"""Height of the strip of phases, and the distance of panels, in inches."""


@dataclass(frozen=True)
class Panel:
    """A panel of each run. height_in: in inches. columns: the series that it shows, in this order of line styles."""

    label: str
    columns: tuple[str, ...]
    height_in: float
    is_of_host: bool
    scale: float = 1.0


PANELS = (
    Panel("utilisation\n(%)", ("utilisation_frac",), 1.05, False, PERCENT),
    Panel("memory\n(GiB)", ("memory_gib",), 0.85, False),
    Panel("host\nCPU (%)", ("utilisation_frac",), 0.65, True, PERCENT),
    Panel("disk\n(MiB/s)", ("disk_read_gib_per_s", "disk_write_gib_per_s"), 0.65, True, MIB_PER_GIB),
)


@dataclass(frozen=True)
class Timeline:
    """What is drawn of one run. Arrays have one value per bin. devices, hosts: their series by name, the first first.

    phases: by the keys of PHASE_SERIES.
    """

    title: str
    framework: str
    bin_s: float
    phases: dict[str, np.ndarray]
    devices: dict[str, dict[str, np.ndarray]]
    hosts: dict[str, dict[str, np.ndarray]]

    @property
    def times_s(self) -> np.ndarray:
        """The ends of all bins, with the begin of the first one."""
        return self.bin_s * np.arange(len(self.phases["training_frac"]) + 1)


def draw(runs: pd.DataFrame, timelines: pd.DataFrame) -> Figure:
    """Draw one run of each series, on its largest device count."""
    chosen = choose_runs(runs[runs["run_dir"].isin(timelines["run_dir"])])
    if chosen.empty:
        return draw_empty_figure(f"No run with samples has completed; {SEE_GRID}.")
    rows = dict(iter(timelines.groupby("run_dir")))
    names = chosen["series"] + ", " + chosen["num_gpus"].map(lambda count: name_count(count, "device"))
    names = names.mask(chosen["disturbed"].eq(True), names + ", disturbed")
    drawn = [
        read_timeline(rows[run_dir], name, framework)
        for run_dir, name, framework in zip(chosen["run_dir"], names, chosen["framework"], strict=True)
    ]
    return draw_timelines(drawn, num_columns=1 if len(drawn) == 1 else 2 if len(drawn) in (2, 4) else 3)


def choose_runs(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the first completed repeat of each series on its largest device count, with a column `series`.

    With more series than fit on a page, only the first one of each framework is left, on real images if there are any.
    runs: the table of that name.
    """
    completed = runs[runs["status"] == "completed"]
    completed = completed.assign(series=name_series(completed) if len(completed) else "")
    if completed["series"].nunique() > MOST_RUNS:
        completed = choose_inputs(completed)
        firsts = completed.drop_duplicates("framework")["series"]
        completed = completed[completed["series"].isin(firsts)]
    ordered = completed.sort_values(["num_gpus", "repeat"], ascending=[False, True], kind="stable")
    return ordered.drop_duplicates("series").sort_index()


def read_timeline(rows: pd.DataFrame, title: str, framework: str) -> Timeline:
    """Read what is drawn of one run. rows: those of the run in the table `timelines`."""
    phases = rows[rows["device"] == PHASES].iloc[0]
    series: dict[bool, dict[str, dict[str, np.ndarray]]] = {False: {}, True: {}}
    has_nodes = rows["node"].nunique() > 1
    for _, row in rows[rows["device"] != PHASES].iterrows():
        is_host = row["device"] == HOST
        node = f"node {row['node']}"
        name = node if is_host else f"{node} {row['device']}" if has_nodes else row["device"]
        known = {column: unpack(row[column]) for column in SERIES if isinstance(row[column], str)}
        series[is_host][name] = known
    shares = {phase: unpack(phases[phase]) for phase in PHASE_SERIES}
    return Timeline(title, framework, float(phases["bin_s"]), shares, series[False], series[True])


def draw_run(timeline: Timeline) -> Figure:
    """Draw one run alone, larger, with the name of each device."""
    return draw_timelines([timeline], num_columns=1, width_in=9.0, taller=2.2, names_all=True)


def draw_timelines(
    drawn: list[Timeline], num_columns: int, width_in: float = 3.6, taller: float = 1.0, names_all: bool = False
) -> Figure:
    """Draw runs side by side in rows of num_columns, each as panels one above the other, with one scale for all.

    width_in: of a panel. taller: factor on the height of panels. names_all: whether each device has a colour and its
    name; otherwise the first one has the framework's colour and the others are grey. A panel for which no run has
    samples is left out.
    """
    panels = [panel for panel in PANELS if any(_find_lines(timeline, panel) for timeline in drawn)]
    panels = panels or list(PANELS[:1])
    num_rows = -(-len(drawn) // num_columns)
    titles = [textwrap.fill(timeline.title, int(LETTERS_PER_IN * width_in)) for timeline in drawn]
    title_in = LINE_IN * (1 + max(title.count("\n") for title in titles)) + 0.08
    block_in = title_in + PHASES_IN + sum(GAP_IN + taller * panel.height_in for panel in panels)
    size = (
        SPACE_IN["left"] + num_columns * (width_in + SPACE_IN["right"]),
        SPACE_IN["top"] + num_rows * block_in + (num_rows - 1) * SPACE_IN["between"] + SPACE_IN["bottom"],
    )
    figure = plt.figure(figsize=size)
    end_s = max(float(timeline.times_s[-1]) for timeline in drawn)
    tops = {panel.label: _find_top(drawn, panel) for panel in panels}
    firsts: list[Axes] = []
    for position, timeline in enumerate(drawn):
        row, column = divmod(position, num_columns)
        left = SPACE_IN["left"] + column * (width_in + SPACE_IN["right"])
        top = size[1] - SPACE_IN["top"] - row * (block_in + SPACE_IN["between"]) - title_in
        is_last = position + num_columns >= len(drawn)
        heights = [PHASES_IN, *(taller * panel.height_in for panel in panels)]
        axes = _add_column(figure, size, (left, top), width_in, heights, firsts)
        firsts = firsts or axes
        for each in axes:
            each.set_xlim(0, end_s)
        _draw_phases(axes[0], timeline, is_first=column == 0)
        for each, panel in zip(axes[1:], panels, strict=True):
            _draw_panel(each, timeline, panel, tops[panel.label], names_all)
            each.set_ylabel(panel.label if column == 0 else "", fontsize=10)
            is_share = panel.scale == PERCENT
            each.yaxis.set_major_locator(MultipleLocator(50) if is_share else MaxNLocator(2 if panel.is_of_host else 3))
            each.tick_params(labelleft=column == 0)
        for each in axes:
            each.axvspan(float(timeline.times_s[-1]), end_s, color=ENDED, linewidth=0)
            each.tick_params(labelbottom=is_last and each is axes[-1])
        axes[-1].set_xlabel("seconds since the start of the run" if is_last else "")
        axes[0].set_title(titles[position])
    _explain(figure, drawn, panels, size)
    return figure


def _add_column(
    figure: Figure,
    size: tuple[float, float],
    corner: tuple[float, float],
    width_in: float,
    heights_in: list[float],
    firsts: list[Axes],
) -> list[Axes]:
    """Add the panels of a run one below the other. All runs share the x axis, and a row of panels its y axis.

    corner: the left upper one, in inches. firsts: the panels of the first run; empty for the first run itself.
    """
    axes: list[Axes] = []
    bottom = corner[1]
    for position, height_in in enumerate(heights_in):
        bottom -= height_in
        place = (corner[0] / size[0], bottom / size[1], width_in / size[0], height_in / size[1])
        along = firsts[0] if firsts else axes[0] if axes else None
        axes.append(figure.add_axes(place, sharex=along, sharey=firsts[position] if firsts else None))
        bottom -= GAP_IN
    return axes


def _draw_phases(axes: Axes, timeline: Timeline, is_first: bool) -> None:
    """Fill each bin with its phases, from the bottom up."""
    lower = np.zeros(len(timeline.phases["training_frac"]))
    for phase, colour in PHASE_LOOKS.items():
        upper = lower + timeline.phases[phase]
        _fill(axes, timeline.times_s, lower, upper, color=colour)
        lower = upper
    axes.set_ylim(0, 1)
    axes.set_yticks([0.5], ["phases"])
    axes.tick_params(left=False, bottom=False, labelleft=is_first)


def _fill(axes: Axes, times_s: np.ndarray, lower: np.ndarray, upper: np.ndarray, **look) -> None:
    """Fill between two step functions of time. Empty bins are left out, and equal neighbours are joined."""
    is_new = np.concatenate([[True], (np.diff(lower) != 0) | (np.diff(upper) != 0)])
    first = np.flatnonzero(is_new)
    begins_s, ends_s = times_s[first], np.concatenate([times_s[first[1:]], times_s[-1:]])
    corners = np.stack(
        [
            np.stack([begins_s, begins_s, ends_s, ends_s, begins_s], axis=1),
            np.stack([lower[first], upper[first], upper[first], lower[first], lower[first]], axis=1),
        ],
        axis=-1,
    )[upper[first] > lower[first]]
    if not len(corners):
        return
    codes = [Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY]
    # One path with all rectangles is a tenth of the text that as many paths are.
    path = Path(corners.reshape(-1, 2), np.tile(codes, len(corners)).astype(Path.code_type))
    axes.add_collection(PathCollection([path], linewidths=0, **look))


def _find_lines(timeline: Timeline, panel: Panel) -> dict[tuple[str, str], np.ndarray]:
    """Return the series that a panel shows, by device or host and column, without those that have no value."""
    sources = timeline.hosts if panel.is_of_host else timeline.devices
    found = {(name, column): series.get(column) for name, series in sources.items() for column in panel.columns}
    known = {key: values for key, values in found.items() if values is not None and np.isfinite(values).any()}
    return {key: panel.scale * values for key, values in known.items()}


def _find_top(drawn: list[Timeline], panel: Panel) -> float:
    """Return the upper end of a panel's y axis, for all runs.

    A share ends at 100 %. Samples of CPU time may be above it, if the sample before was late.
    """
    if panel.scale == PERCENT:
        return 1.08 * PERCENT
    highest = [float(np.nanmax(values)) for each in drawn for values in _find_lines(each, panel).values()]
    return 1.08 * max([0.0, *highest]) or 1.0


def _draw_panel(axes: Axes, timeline: Timeline, panel: Panel, top: float, names_all: bool) -> None:
    """Draw one line per device or host. Bins that are a phase of SHADED for the most part are shaded."""
    for phase in SHADED:
        shade = np.where(timeline.phases[phase] > 0.5, top, 0.0)
        _fill(axes, timeline.times_s, np.zeros_like(shade), shade, color=PHASE_LOOKS[phase], alpha=0.15)
    axes.set_ylim(0, top)
    lines = _find_lines(timeline, panel)
    if not lines:
        axes.annotate("no samples", (0.5, 0.5), xycoords="axes fraction", ha="center", va="center", color=GREY)
        return
    names = list(dict.fromkeys(name for name, _ in lines))
    colours = _choose_colours(names, "#000000" if panel.is_of_host else get_look(timeline.framework)[0], names_all)
    middles_s = (timeline.times_s[1:] + timeline.times_s[:-1]) / 2
    # The first device is drawn last, over the others.
    for (name, column), values in reversed(lines.items()):
        is_thick = name == names[0] and not panel.is_of_host
        look = {"linewidth": 1.4 if is_thick else 0.9, "linestyle": SOLID if column == panel.columns[0] else DASHED}
        axes.plot(middles_s, values, color=colours[name], **look)
    # One panel with the names of many devices is enough, as a second one has the same colours.
    if len(names) > 1 if panel.is_of_host else panel is PANELS[0] or not names_all:
        ends = {name: _find_end(values, timeline.times_s) for (name, _), values in lines.items()}
        grouped = {name: [name] for name in names} if names_all or panel.is_of_host else _group(names)
        label_lines(
            axes,
            {
                text: (ends[group[0]][0], float(np.median([ends[name][1] for name in group])), colours[group[0]])
                for text, group in grouped.items()
            },
        )


def _choose_colours(names: list[str], first: str, names_all: bool) -> dict[str, str]:
    """Return the colour of each line: `first` and greys, or a colour for each."""
    if not names_all:
        return dict.fromkeys(names, GREY) | {names[0]: first}
    others = [colour for colour in COLOURS if colour != first]
    return {names[0]: first} | {name: others[i % len(others)] for i, name in enumerate(names[1:])}


def _group(names: list[str]) -> dict[str, list[str]]:
    """Return the devices that each text beside their lines names: the first one, and all others.

    They are numbered over all nodes. Older samples are those of all CPU devices of a node together.
    """
    if names[0].endswith(ALL_CPUS):
        return {"all": names} if len(names) == 1 else {name.removesuffix(f" {ALL_CPUS}"): [name] for name in names}
    if len(names) < 3:
        return {str(position): [name] for position, name in enumerate(names)}
    return {"0": names[:1], f"1\N{EN DASH}{len(names) - 1}": names[1:]}


def _find_end(values: np.ndarray, times_s: np.ndarray) -> tuple[float, float]:
    """Return time and value of the last bin with samples."""
    last = int(np.flatnonzero(np.isfinite(values))[-1])
    return float(times_s[last + 1]), float(values[last])


def _explain(figure: Figure, drawn: list[Timeline], panels: list[Panel], size: tuple[float, float]) -> None:
    """Name the phases and the lines of the disk above the runs."""
    # Programs alone have checkpoints.
    has_checkpoints = any(timeline.phases["checkpoint_frac"].any() for timeline in drawn)
    shown = [phase for phase in PHASE_LOOKS if phase != "checkpoint_frac" or has_checkpoints]
    handles: list = [Patch(color=PHASE_LOOKS[phase], label=PHASE_NAMES[phase]) for phase in shown]
    handles.append(Patch(facecolor="white", edgecolor=GREY, linewidth=0.5, label=REST))
    if any(len(panel.columns) > 1 for panel in panels):
        handles += [
            Line2D([], [], color="#000000", linestyle=SOLID, label="disk: read"),
            Line2D([], [], color="#000000", linestyle=DASHED, label="written"),
        ]
    figure.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=(SPACE_IN["left"] / size[0], 1.0),
        ncols=len(handles) if len(drawn) > 2 or size[0] > 9 else 3,
        frameon=False,
        borderaxespad=0,
        borderpad=0,
        fontsize=10,
        handlelength=1.2,
    )
