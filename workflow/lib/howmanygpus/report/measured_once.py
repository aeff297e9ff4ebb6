"""
Patch: while a figure is laid out and written, measure each text and place the ticks of each axis once per size.

For one layout with two files, matplotlib asks some thirty times for the ticks of each axis and for the boxes of their
labels: each panel asks again for its titles and for the labels of its axes. Nothing but the size of the panel, the
limits of its axes and the renderer, with its resolution, changes the answer between the begin of a layout and the last
file. The files are the same with the patch and without it.

Upstream: no issue is known.
Tested with matplotlib 3.11.2. Other versions are not patched. tests/report/test_style_of_figures.py fails if the pinned
version is another one, and if the patch changes a figure.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.axis import Axis, XAxis, YAxis
from matplotlib.text import Text

TESTED = ("3.11.2",)
"""Versions of matplotlib whose methods are replaced."""


@contextmanager
def measure_once() -> Iterator[None]:
    """Keep what is measured until the block ends. Only the size of a figure and its panels may change within it."""
    if matplotlib.__version__ not in TESTED:
        yield
        return
    replaced = (
        (Text, "_get_layout", _describe_text),
        (Axis, "_update_ticks", _describe_axis),
        (Axis, "_get_ticklabel_bboxes", _describe_axis),
        (XAxis, "_update_label_position", _describe_axis),
        (YAxis, "_update_label_position", _describe_axis),
        (Axes, "_update_title_position", _describe_panel),
    )
    upstream = [(owner, name, getattr(owner, name)) for owner, name, _ in replaced]
    try:
        for owner, name, describe in replaced:
            setattr(owner, name, _keep(getattr(owner, name), describe))
        yield
    finally:
        for owner, name, method in upstream:
            setattr(owner, name, method)


def _keep(method: Callable, describe: Callable[[Any], tuple]) -> Callable:
    """Return a method that repeats its last result for an object while nothing that decides on it has changed."""
    kept: dict[Any, tuple[tuple, Any]] = {}

    def measure(self: Any, *arguments: Any, **options: Any) -> Any:
        state = (*describe(self), *map(id, arguments), *map(id, options.values()))
        if self not in kept or kept[self][0] != state:
            kept[self] = (state, method(self, *arguments, **options))
        return kept[self][1]

    return measure


def _describe_text(text: Text) -> tuple:
    return text.get_text(), text.get_figure(root=True).dpi


def _describe_axis(axis: Axis) -> tuple:
    return (*_describe_panel(axis.axes), *axis.get_view_interval())


def _describe_panel(axes: Axes) -> tuple:
    return axes.bbox.bounds
