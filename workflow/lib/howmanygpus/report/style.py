"""
The look of all figures: colours that colour-blind readers can tell apart, and names beside the lines.

A framework has its own colour in every figure of every study. Its variants, inputs, precisions and devices share the
colour and differ in markers and lines.
"""

import math
import os
import re
import textwrap
import zlib
from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache, partial
from itertools import zip_longest
from pathlib import Path
from typing import TypeVar
from weakref import WeakKeyDictionary

os.environ.pop("MPLBACKEND", None)  # A user's backend may not be installed here.

import matplotlib

matplotlib.rcdefaults()  # not those of a user's matplotlibrc
matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backend_bases import RendererBase
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.path import Path as MplPath
from matplotlib.text import Text
from matplotlib.transforms import Affine2D, Bbox, ScaledTranslation, Transform

from howmanygpus import registry
from howmanygpus.files import atomic_path
from howmanygpus.report.rows import DAGGER, find_unit

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D31")
"""Okabe and Ito 2008, with a brown instead of its yellow, which is too pale for lines."""
MANY_SERIES = 12
"""Number of series beyond which a figure has a panel for each family of frameworks, with the others in grey."""
MOST_PANELS = 4
"""Most panels of a figure at first sight, apart from those of families."""
LETTER_OF_NOTE_IN = 0.068
"""Width of a letter of a note below a figure, in inches."""
MARKERS = "osD^vPX*"
MARKER_SIZES = (9, 5)
"""Marker sizes of the first and the last series of a figure, in points."""
SOLID, DASHED, MIXED = "-", (0, (5, 2)), (0, (4, 1.5, 1, 1.5))
LINES = (SOLID, DASHED, MIXED)
"""Dotted lines are reserved for guides to the eye."""
FRAMEWORKS = {
    "pytorch_ddp": ("#0072B2", "o"),
    "pytorch_dp": ("#56B4E9", "s"),
    "horovod_pytorch": ("#332288", "D"),
    "keras_mirrored": ("#D55E00", "^"),
    "tensorflow_mirrored": ("#E69F00", "v"),
    "tensorflow_multiworker": ("#8C6D31", "P"),
    "horovod_tensorflow": ("#882255", "X"),
    "horovod_keras": ("#CC79A7", "*"),
    "jax_sharding": ("#009E73", "o"),
    "mxnet_gluon": ("#000000", "s"),
    "chainer_mn": ("#999933", "D"),
}
"""Colour and marker of each framework: PyTorch in blues, TensorFlow and Keras in warm colours; three are Tol's."""
FAMILIES = {"torch": "#0072B2", "keras": "#D55E00", "flax": "#009E73", "gluon": "#000000", "chainer": "#999933"}
"""Colour of each family, for figures with a line for each; the marker of a point is that of its framework."""
GREY = "#767676"
STRIP = "#F2F2F2"
"""Background of a strip outside the scale of an axis."""
CONTRAST = 4.5
"""Smallest contrast of text and background (WCAG 2.2, level AA)."""
NOT_REACHED = "not reached"
LETTER_IN, LINE_PT = 0.08, 13.75
"""Width of a letter of a name beside a line, in inches, and the smallest distance of two names, in points."""
NEAR = 0.85
"""Part of the largest x from which on a line ends near its name."""
NAME_SPACE_IN = (2.7, 1.3)
"""Smallest width and height of a panel without its names, in inches, with its title and the labels of its axes."""
LONG_LINE = re.compile(r'(?<= d=")[MLz\d\s.+-]{1000,}(?=")')
"""A line of many points in an SVG, without curves."""
DECIMALS = re.compile(r"-?\d+\.\d+")
RING = "#CC0000"
RING_NOTE = "red ring: disturbed by other work"
REPEAT_SHIFT_PT = 8
"""Distance of the points of repeats from their median, in points."""
OUTLIER = "#222222"
OUTLIER_NOTE = "dark diamond: outlier among the repeats"
FAILED_NOTE = "k/n: k of n repeats completed"
RATES_NOTE = f"{DAGGER}: learning rates of its own"
STAR_NOTE = "*: collective machinery on one device"
SEE_GRID = "the figure of all runs says why"

NOTE_PT, HEADLINE_PT = 9, 12
"""Sizes of the notes below a figure and of the headline above it."""
LETTER_OF_HEADLINE_IN = 0.1
"""Width of a letter of a headline, in inches."""
LINE_SPACING = 1.4
"""Height of a line of such a text, in its size."""
GREY_OF_NOTES = "#444444"

Panel = TypeVar("Panel")
_NOTES: WeakKeyDictionary = WeakKeyDictionary()
"""Notes of the panels of each figure that is not saved yet, and whether they are about all panels."""

plt.rcParams.update(
    {
        "font.size": 11,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.titlesize": 11,
        "axes.titlelocation": "left",
        "figure.dpi": 100,
        "svg.fonttype": "none",
        "svg.hashsalt": "howmanygpus",
    }
)


def get_look(framework: str) -> tuple[str, str]:
    """Return the colour and the marker of a framework. Without an entry, they are derived from its name."""
    number = zlib.crc32(framework.encode())
    drawn = COLOURS[number % len(COLOURS)], MARKERS[number // len(COLOURS) % len(MARKERS)]
    return FRAMEWORKS.get(framework, drawn)


def find_family(framework: str) -> str:
    """Return the family of a framework; a framework that is not in the registry is its own."""
    return registry.FRAMEWORKS[framework].family if framework in registry.FRAMEWORKS else framework


def has_families(rows: pd.DataFrame) -> bool:
    """Return whether there are so many series that each family of frameworks has panels of its own."""
    return rows["series"].nunique() > MANY_SERIES


def split_families(rows: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Return the start of a title and the rows of each family if there are many series; else no start and all rows."""
    if not has_families(rows):
        return [("", rows)]
    families = rows.groupby(rows["framework"].map(find_family), sort=False)
    return [(f"{family}: ", own) for family, own in families]


def draw_in_grey(axes: Axes, rows: pd.DataFrame, x: str, y: str) -> None:
    """Draw series that a panel does not show as thin lines, so that those that it shows can be placed among them."""
    for _, line in rows.sort_values(x).groupby("series"):
        marker = "." if len(line) == 1 else None
        axes.plot(line[x], line[y], color=GREY, linewidth=0.7, alpha=0.35, zorder=1, marker=marker)


@cache
def darken(colour: str) -> str:
    """Return a colour for text: as dark as its contrast to the background of a strip, and so to white, demands."""
    for lightness in np.linspace(1, 0, 101):
        text = to_hex([lightness * part for part in to_rgb(colour)])
        if compute_contrast(text, STRIP) >= CONTRAST:
            return text
    raise AssertionError("black has the highest contrast")


def compute_contrast(colour: str, background: str) -> float:
    """Return the contrast of two colours, from 1 to 21, as WCAG 2.2 defines it."""
    darker, lighter = sorted(_compute_luminance(each) for each in (colour, background))
    return (lighter + 0.05) / (darker + 0.05)


def _compute_luminance(colour: str) -> float:
    parts = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in to_rgb(colour)]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def choose_styles(names: Iterable[str]) -> dict[str, dict]:
    """Return colour, marker and line of each series by its name, which begins with its framework.

    The first series of a framework has the framework's marker and a solid line. All series look different. Figures draw
    the series in this order, each with a smaller marker, so that equal values do not hide each other.
    """
    styles: dict[str, dict] = {}
    ordered = sorted(set(names))
    for name, size in zip(ordered, np.linspace(*MARKER_SIZES, len(ordered)), strict=True):
        framework = name.split(" ")[0]
        colour, marker = get_look(framework)
        taken = {style["marker"] for style in styles.values() if style["color"] == colour}
        first = MARKERS.index(marker)
        free = [each for each in MARKERS[first:] + MARKERS[:first] if each not in taken] or [marker]
        own = sum(other.split(" ")[0] == framework for other in styles)
        styles[name] = {"color": colour, "marker": free[0], "linestyle": LINES[own % len(LINES)], "markersize": size}
    return styles


def thin(panels: Sequence[Panel], most: int = MOST_PANELS) -> list[Panel]:
    """Return at most so many of a row of panels: the last one, the first one, and others at equal distances."""
    if len(panels) <= most:
        return list(panels)
    return [panels[round(i)] for i in np.linspace(0 if most > 1 else len(panels) - 1, len(panels) - 1, most)]


def thin_blocks(blocks: list[list[Panel]], has_families: bool = False) -> tuple[list[list[Panel]], int]:
    """Return at most MOST_PANELS panels, or one for each family, and how many are left out. blocks: rows of panels."""
    kept = blocks if has_families else thin(blocks)
    kept = [thin(block, max(1, MOST_PANELS // len(kept))) for block in kept]
    return kept, sum(map(len, blocks)) - sum(map(len, kept))


def note_left_out(axes: Axes, number: int, table: str) -> None:
    """Say below a figure that it has not all panels, and where their numbers are."""
    if number:
        add_note(axes, f"not shown: {number} more of such panels; their numbers are in the table {table}", True)


def balance(num_panels: int, max_columns: int = 3) -> int:
    """Return the number of columns with which rows are about equally long."""
    return -(-num_panels // -(-num_panels // max_columns))


def arrange(blocks: list[list[Panel]], max_columns: int = 4) -> tuple[int, list[Panel | None]]:
    """Return the number of columns, and panels row by row so that each block begins a row; None is a free place."""
    columns = min(max(map(len, blocks)), max_columns)
    if len(blocks) == 1:
        return balance(columns), [*blocks[0]]
    if columns == 1:
        return max_columns, [block[0] for block in blocks]
    return columns, [panel for block in blocks for panel in (*block, *[None] * (-len(block) % columns))]


def make_panels(
    titles: Sequence[str | None], panel_size: tuple[float, float] = (4.6, 3.6), max_columns: int = 3
) -> tuple[Figure, list[Axes]]:
    """Create a figure with one panel per title, in rows of at most max_columns; panel_size is in inches.

    A title that is None leaves its place free.
    """
    columns = balance(len(titles), max_columns) if None not in titles else min(len(titles), max_columns)
    rows = -(-len(titles) // columns)
    size = (panel_size[0] * columns, panel_size[1] * rows)
    figure, grid = plt.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")
    panels = list(grid.flat)
    shown = []
    for panel, title in zip_longest(panels, titles):
        if title is None:
            panel.remove()
        else:
            panel.set_title(title)
            shown.append(panel)
    return figure, shown


def label_lines(axes: Axes, ends: dict[str, tuple[float, float, str]]) -> None:
    """Write the names in a column right of the axes, each joined to the end of its line by a thin line.

    ends: (x, y, colour) by name. Names are moved up or down so that they do not overlap, and stay within the height of
    the axes if there is room. The figure grows if they are too long or too many for it. A thin line across a part of
    the panel is broken, so that it does not look like one of its lines.
    """
    # Limits that were set are those of the panel; others are not known before the figure is whole.
    limits = [] if axes.get_autoscalex_on() else [axes.get_xlim()[1]]
    last = max((*limits, *(x for x, *_ in ends.values())), default=0.0)
    _make_room(axes, list(ends))
    places = _place_names(axes, ends)
    for name, (x, y, colour) in ends.items():
        axes.annotate(
            name,
            xy=(x, y),
            xytext=(1.03, 0),
            textcoords=places[name],
            color=darken(colour),
            va="center",
            fontsize=10,
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": colour,
                "linestyle": "-" if x >= NEAR * last else (0, (1, 3)),
                "linewidth": 0.7,
                "alpha": 0.6,
                "relpos": (0, 0.5),
                # Otherwise matplotlib looks for the line's way out of the text's box, by halves, at each drawing.
                "patchA": None,
                "connectionstyle": _connect,
            },
        )


def _connect(
    begin: Sequence[float], end: Sequence[float], shrinkA: float, shrinkB: float, patchA: None, patchB: None
) -> MplPath:
    """Return a straight line without its first and its last pixels; the parameters have the names of matplotlib.

    Its own connection styles look for the place where any curve leaves a circle, by halves.
    """
    ends = np.array([begin, end])
    length = max(math.hypot(*(ends[1] - ends[0])), 1e-9)
    gaps = np.array([[shrinkA], [-shrinkB]]) if length > shrinkA + shrinkB else 0.0
    return MplPath(ends + gaps * (ends[1] - ends[0]) / length)


def _make_room(axes: Axes, names: list[str]) -> None:
    """Enlarge a figure with panels of equal size, so that each panel has room besides its names."""
    figure, grid = axes.get_figure(root=True), axes.get_gridspec()
    if figure is None or grid is None or not names:
        return
    width = NAME_SPACE_IN[0] + LETTER_IN * max(map(len, names))
    height = NAME_SPACE_IN[1] + LINE_PT / 72 * len(names)
    size = figure.get_size_inches()
    least = grid.ncols * width, grid.nrows * height + _measure_headline(figure)
    figure.set_size_inches(max(size[0], least[0]), max(size[1], least[1]))


def _place_names(
    axes: Axes, ends: dict[str, tuple[float, float, str]]
) -> dict[str, Callable[[RendererBase], Transform]]:
    """Return the coordinates of each name. Their heights depend on the height of the axes when they are drawn.

    The layout of the whole figure decides the height of the axes; computing it for each panel would take seconds.
    """
    figure = axes.get_figure(root=True)
    assert figure is not None
    points = [(x, y) for x, y, _ in ends.values()]

    @lru_cache(1)
    def find_heights(dpi: float, height: float, limits: tuple[float, ...]) -> dict[str, float]:
        """Everything that moves the names is a parameter. height: of the panel, in pixels."""
        fractions = (axes.transData + axes.transAxes.inverted()).transform(points)[:, 1].tolist()
        wanted = sorted(zip(fractions, ends, strict=True))
        heights = spread([fraction for fraction, _ in wanted], LINE_PT * dpi / 72 / height)
        return {name: height for (_, name), height in zip(wanted, heights, strict=True)}

    def place(name: str, _: RendererBase) -> Transform:
        heights = find_heights(figure.dpi, axes.bbox.height, axes.viewLim.bounds)
        return Affine2D().translate(0, heights[name]) + axes.transAxes

    return {name: partial(place, name) for name in ends}


def spread(wanted: list[float], gap: float) -> list[float]:
    """Move rising heights so that neighbours are at least `gap` apart, within 0 to 1 if there is room for all."""
    heights: list[float] = []
    for y in wanted:
        heights.append(max(y, heights[-1] + gap) if heights else y)
    shift = sum(wanted) / len(wanted) - sum(heights) / len(heights) if wanted else 0.0
    floor = 0.0
    for i, y in enumerate(heights):
        heights[i] = max(y + shift, floor)
        floor = heights[i] + gap
    ceiling = max(1.0, gap * (len(heights) - 1))
    for i in reversed(range(len(heights))):
        heights[i] = min(heights[i], ceiling)
        ceiling = heights[i] - gap
    return heights


def mark_counts(axes: Axes, counts: Iterable[int]) -> None:
    """Make the x axis logarithmic, with ticks at the measured values only. Numbers without room are left out."""
    axes.set_xscale("log", base=2)
    counts = sorted({int(count) for count in counts})
    low, high = counts[0] / 1.25, counts[-1] * 1.25
    axes.set_xticks(counts, _write_apart(counts, math.log2(high / low)))
    axes.minorticks_off()
    axes.set_xlim(low, high)


def _write_apart(counts: list[int], doublings: float) -> list[str]:
    """Return the labels of ticks, from the largest number down; a label that would touch a larger one is empty.

    doublings: number of doublings on the axis. On the narrowest panels, a digit takes 2.5 % of the axis.
    """
    labels, last = {}, math.inf
    for count in reversed(counts):
        needed = 0.025 * (len(str(count)) + len(str(last))) / 2 + 0.015
        has_room = math.log2(last / count) / doublings >= needed
        labels[count] = str(count) if has_room else ""
        last = count if has_room else last
    return [labels[count] for count in counts]


def add_note(axes: Axes, note: str, is_shared: bool = False) -> None:
    """Write a line below the label of the x axis. Call this after the label is final.

    In a figure of several panels, a note that is about all of them, or that several have, is written once below them
    when the figure is saved.
    """
    axes.set_xlabel(f"{axes.get_xlabel()}\n{note}")
    notes = _NOTES.setdefault(axes.get_figure(root=True), {})
    notes[note] = notes.get(note, False) or is_shared


def _strip_notes(label: str, notes: list[str]) -> str:
    """Return the label of an axis without the notes below it."""
    return label[: min((label.find(f"\n{note}") for note in notes if f"\n{note}" in label), default=len(label))]


def add_headline(figure: Figure, headline: str) -> None:
    """Write above a figure what it shows, in numbers; nothing if there is nothing to say."""
    if headline:
        whole = re.sub(r"(?<=\d) (?=\w)", "\N{NO-BREAK SPACE}", headline)
        lines = textwrap.wrap(whole, int(figure.get_size_inches()[0] / LETTER_OF_HEADLINE_IN))
        figure.suptitle("\n".join(lines), x=0.0, ha="left", fontsize=HEADLINE_PT, fontweight="bold")
        width, height = figure.get_size_inches()
        figure.set_size_inches(width, height + _measure_headline(figure))


def _measure_headline(figure: Figure) -> float:
    """Return the height of the headline of a figure, in inches."""
    lines = figure.get_suptitle().splitlines()
    return LINE_SPACING * HEADLINE_PT * len(lines) / 72


def share_labels(figure: Figure) -> None:
    """Leave labels and notes that panels have in common in one place, and number a shared axis once.

    The label of an x axis stays below the lowest panel of each column, and that of a y axis left of each row. Notes go
    below all panels, and so does what tells frameworks of similar names apart. The figure grows by the lines below the
    panels.
    """
    panels = [axes for axes in figure.axes if axes.get_subplotspec() is not None]
    noted = _NOTES.pop(figure, {})
    notes = _hoist_notes(noted, panels) if len(panels) > 1 else []
    grids: dict[int, list[Axes]] = {}
    for axes in panels:
        grids.setdefault(id(axes.get_gridspec()), []).append(axes)
    for grid in grids.values():
        _label_once(grid, list(noted))
    notes += [note] if (note := registry.tell_apart(_list_words(figure))) else []
    if notes:
        _write_below(figure, [note.replace("\n", " ") for note in notes])


def _write_below(figure: Figure, notes: list[str]) -> None:
    """Write notes below everything else in a figure."""
    width, height = figure.get_size_inches()
    look = {"ha": "left", "fontsize": NOTE_PT, "color": GREY_OF_NOTES}
    # Without a layout that makes room, the text goes below the part that is drawn.
    box = None if figure.get_layout_engine() else figure.get_tightbbox()
    letters = int((box.width if box else width) / LETTER_OF_NOTE_IN)
    lines = [line for note in notes for line in textwrap.wrap(note, letters)]
    if box:
        figure.text(box.x0 / width, (box.y0 - NOTE_PT / 72) / height, "\n".join(lines), va="top", **look)
        return
    figure.supxlabel("\n".join(lines), x=0.0, **look)
    figure.set_size_inches(width, height + LINE_SPACING * NOTE_PT * len(lines) / 72)


def _list_words(figure: Figure) -> set[str]:
    """Return the words of all texts of a figure."""
    texts = [artist.get_text() for artist in figure.findobj(Text) if isinstance(artist, Text)]
    return {word for text in texts for word in re.findall(r"\w+", text)}


def _hoist_notes(noted: dict[str, bool], panels: list[Axes]) -> list[str]:
    """Take the notes that are about all panels, or that several have, out of them, and return these notes."""
    hoisted = []
    for note, is_shared in noted.items():
        having = [axes for axes in panels if f"\n{note}\n" in f"{axes.get_xlabel()}\n"]
        if is_shared or len(having) > 1:
            hoisted.append(note)
            for axes in having:
                without = f"{axes.get_xlabel()}\n".replace(f"\n{note}\n", "\n")
                axes.xaxis.label.set_text(without.removesuffix("\n"))
    return hoisted


def _label_once(grid: list[Axes], notes: list[str]) -> None:
    """Remove labels that the lowest panel of the column, or the first one of the row, has as well. Notes stay."""
    places = {axes: axes.get_subplotspec() for axes in grid}
    lowest = {
        place.colspan.start: axes for axes, place in sorted(places.items(), key=lambda each: each[1].rowspan.stop)
    }
    labels = {axes: _strip_notes(axes.get_xlabel(), notes) for axes in grid}
    if len(set(labels.values())) == 1:
        for axes, place in places.items():
            if axes is not lowest[place.colspan.start]:
                axes.xaxis.label.set_text(axes.get_xlabel().removeprefix(labels[axes]).removeprefix("\n"))
    by_row: dict[int, list[Axes]] = {}
    for axes, place in sorted(places.items(), key=lambda each: each[1].colspan.start):
        by_row.setdefault(place.rowspan.start, []).append(axes)
    for first, *others in by_row.values():
        for axes in others:
            if axes.get_ylabel() == first.get_ylabel() and axes.yaxis.get_label_position() == "left":
                axes.set_ylabel("")
                if axes.get_ylim() == first.get_ylim() and axes.get_yscale() == first.get_yscale():
                    axes.tick_params(axis="y", which="major", labelleft=False)


def note_rates(axes: Axes, series: Iterable[str]) -> None:
    """Explain the dagger below a panel with a series that has one."""
    if any(DAGGER in name for name in series):
        add_note(axes, RATES_NOTE, is_shared=True)


def mark_disturbed(axes: Axes, x: pd.Series, y: pd.Series, is_disturbed: pd.Series) -> None:
    """Draw a ring around each point of which other work disturbed a repeat, and explain the ring."""
    is_drawn = is_disturbed & y.notna()
    if not is_drawn.any():
        return
    look = {"markersize": 15, "markerfacecolor": "none", "markeredgewidth": 1.3, "color": RING}
    axes.plot(x[is_drawn], y[is_drawn], "o", zorder=4, **look)
    if RING_NOTE not in axes.get_xlabel():
        add_note(axes, RING_NOTE, is_shared=True)


def draw_repeats(axes: Axes, x: pd.Series, y: pd.Series, is_outlier: pd.Series, colour: str) -> None:
    """Draw each repeat as a small point right of the median, and mark outliers. x: the median's place."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    beside = axes.transData + ScaledTranslation(REPEAT_SHIFT_PT / 72, 0, figure.dpi_scale_trans)
    axes.scatter(x, y, s=10, color=colour, alpha=0.9, linewidths=0, zorder=3, transform=beside)
    mark_outliers(axes, x, y, is_outlier, transform=beside)


def mark_outliers(
    axes: Axes, x: pd.Series, y: pd.Series, is_outlier: pd.Series, transform: Transform | None = None
) -> None:
    """Draw a diamond around each point that is an outlier, and explain it. is_outlier: True, False or empty."""
    is_drawn = is_outlier.eq(True) & y.notna()
    if not is_drawn.any():
        return
    look = {"s": 80, "facecolors": "none", "edgecolors": OUTLIER, "linewidths": 1.1}
    axes.scatter(x[is_drawn], y[is_drawn], marker="D", zorder=4, transform=transform or axes.transData, **look)
    if OUTLIER_NOTE not in axes.get_xlabel():
        add_note(axes, OUTLIER_NOTE, is_shared=True)


def count_failed(axes: Axes, x: pd.Series, y: pd.Series, done: pd.Series, failed: pd.Series, colour: str) -> None:
    """Write "completed/tried" beside each point with failed repeats, and explain the numbers."""
    for place_x, place_y, num_done, num_failed in zip(x, y, done, failed, strict=True):
        if num_failed and pd.notna(place_y):
            text = f"{num_done:.0f}/{num_done + num_failed:.0f}"
            axes.annotate(
                text, (place_x, place_y), (6, -12), textcoords="offset points", color=darken(colour), fontsize=9
            )
            if FAILED_NOTE not in axes.get_xlabel():
                add_note(axes, FAILED_NOTE, is_shared=True)


def add_strip(axes: Axes, num_rows: int, is_above: bool) -> list[float]:
    """Add a strip for what was not reached above or below the scale of an axis, and return the heights of its rows.

    A line separates it, the ticks of the axis end there, and it has a name, so that nothing in it is read as a number.
    """
    low, high = axes.get_ylim()
    ticks = [tick for tick in axes.get_yticks() if low <= tick <= high]
    gap = min(0.08, 0.6 / num_rows) * (high - low)
    depth = gap * (num_rows + 0.9)
    edge = high if is_above else low
    axes.axhspan(edge, edge + depth if is_above else edge - depth, color=STRIP, linewidth=0, zorder=0)
    axes.axhline(edge, color=GREY, linewidth=0.8, zorder=1)
    axes.set_ylim((low, high + depth) if is_above else (low - depth, high))
    axes.set_yticks(ticks)
    axes.set_yticks([edge + depth / 2 if is_above else edge - depth / 2], [NOT_REACHED], minor=True, fontsize=9)
    axes.tick_params(axis="y", which="minor", length=0)
    first = edge + 0.95 * gap if is_above else edge - 0.95 * gap
    return [first + (gap if is_above else -gap) * row for row in range(num_rows)]


def name_guess(metric: str) -> str:
    """Name the predictor that knows only how frequent each class is."""
    return "majority class" if metric == "accuracy" else "class frequencies"


def describe_guess(table: pd.DataFrame, metric: str = "metric") -> str:
    """Write the quality of a guess in brackets, to follow a quality in a title; empty if it is not known.

    metric: the column of the metric.
    """
    known = table[table["quality_of_guess"].astype(float) < float("inf")]
    return f" ({name_guess(known[metric].iloc[0])}: {known['quality_of_guess'].iloc[0]:.2g})" if len(known) else ""


def mark_overhead(rows: pd.DataFrame) -> dict[str, str]:
    """Return the name of each series, with a star if its run on one device has overhead for collective operations.

    rows: `series` and the columns of the table `scaling`.
    """
    carries = rows["baseline_machinery"].notna() & (rows["baseline_machinery"] != "none")
    starred = set(rows.loc[carries, "series"])
    return {series: f"{series} *" if series in starred else series for series in rows["series"].unique()}


def note_batches(axes: Axes, rows: pd.DataFrame) -> None:
    """Write the batch of each series below a panel whose series have different ones.

    rows: rows of the table `scaling`.
    """
    sizes = rows.drop_duplicates("series").set_index("series")["fixed_batch_size"]
    if sizes.nunique() > 1:
        parts = [f"{series} {size}" for series, size in sizes.items()]
        for first in range(0, len(parts), 2):
            add_note(axes, (f"{find_unit(rows)}: " if first == 0 else "") + ", ".join(parts[first : first + 2]))


def draw_empty_figure(reason: str) -> Figure:
    """Return a figure without axes that says why nothing is drawn."""
    figure = plt.figure(figsize=(6, 1.6))
    figure.text(0.5, 0.5, reason, ha="center", va="center", color=GREY)
    return figure


def mark_trial_runs(figure: Figure, study: str) -> None:
    """Write above a figure that it shows short runs, from which the configurations to train are chosen."""
    figure.text(0.0, 1.01, f"short probes of the study {study}", fontsize=11, color=GREY, va="bottom")


def save_figure(figure: Figure, svg: Path, png: Path) -> None:
    """Write both files atomically."""
    with atomic_path(png) as unfinished:
        box = _lay_out(figure)
        save_svg(figure, svg, box)
        # The next levels of zlib take a third longer for the last hundredths of the size.
        figure.savefig(unfinished, format="png", bbox_inches=box, dpi=150, pil_kwargs={"compress_level": 3})


def save_svg(figure: Figure, path: Path, box: Bbox | None = None) -> None:
    """Write a figure as SVG. It has no date, so that it is reproducible.

    Long lines are most of a figure with many points. Their coordinates get one decimal of a point (1/72 inch) instead
    of matplotlib's six, and no letter before each, which halves their size.

    box: the part of the figure to write, in inches, if the figure is laid out.
    """
    with atomic_path(path) as partial:
        figure.savefig(partial, format="svg", bbox_inches=box or _lay_out(figure), metadata={"Date": None})
        text = partial.read_text(encoding="utf-8")
        partial.write_text(LONG_LINE.sub(lambda line: _shorten(line[0]), text), encoding="utf-8")


def _lay_out(figure: Figure) -> Bbox:
    """Place the panels of a figure for good, and return the part that is not empty, with a margin, in inches.

    Otherwise matplotlib lays the figure out and looks for that part for each file, which takes longer than drawing.
    """
    share_labels(figure)
    if engine := figure.get_layout_engine():
        engine.execute(figure)
        figure.set_layout_engine(None)
    box = figure.get_tightbbox()
    return Bbox(box.padded(plt.rcParams["savefig.pad_inches"]).get_points())


def _shorten(line: str) -> str:
    """Return the coordinates of a line in fewer letters: L for each further point of a part may be left out."""
    rounded = DECIMALS.sub(lambda number: f"{float(number[0]):.1f}", line)
    return " ".join(rounded.replace("L", " ").split())
