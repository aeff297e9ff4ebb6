"""The figure of a data set's preparation cost: speed of libraries, errors of filters, sizes of files."""

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from howmanygpus.report.style import COLOURS, make_panels

PANELS = {
    "library": ("Decoding and resizing, by library", "images_per_s", "images/s of one core", "{:.0f}"),
    "filter": ("Resizing, against LANCZOS in float32", "psnr_db", "PSNR (dB), more is closer", "{:.1f}"),
    "format": ("Prepared images as files", "kb_per_image", "kB per image", "{:.1f}"),
}
"""Title, column, axis label and number format of each part of the table."""


def draw(table: pd.DataFrame) -> Figure:
    """Draw one panel for each part that the table has."""
    parts = [part for part in PANELS if (table["part"] == part).any()]
    figure, panels = make_panels([PANELS[part][0] for part in parts], panel_size=(4.4, 3.0))
    for panel, part in zip(panels, parts, strict=True):
        _, column, label, text = PANELS[part]
        _draw_bars(panel, table[table["part"] == part], column, text)
        panel.set_xlabel(label)
    return figure


def _draw_bars(axes: Axes, rows: pd.DataFrame, column: str, text: str) -> None:
    names = [_describe(row) for row in rows.itertuples()]
    bars = axes.barh(names, rows[column].fillna(0), color=COLOURS[0], height=0.6)
    axes.bar_label(bars, [text.format(value) for value in rows[column]], padding=3, fontsize=10)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.18 * rows[column].max())
    axes.tick_params(axis="y", length=0)


def _describe(row: Any) -> str:
    """Return the name of a bar; for a file format, with the error that it causes in the images."""
    if row.part != "format":
        return row.name
    return f"{row.name}\n" + (f"{row.psnr_db:.1f} dB" if row.mean_difference else "lossless")
