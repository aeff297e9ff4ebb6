"""What the cells of the figure of all runs say can be read: inside of the cell, and with contrast to its colour."""

import matplotlib.pyplot as plt
import pandas as pd
import pytest
from matplotlib.colors import to_rgb

from helpers.figure_tables import GRIDS, make_tables
from howmanygpus.report.figures import load_figure
from howmanygpus.report.figures.run_grid import STATUS_COLOURS

STATUSES = [*STATUS_COLOURS, "crashed", "time_limit", "interrupted"]
SMALLEST_CONTRAST = 4.5
"""Of text to its background, by the Web Content Accessibility Guidelines 2.2, criterion 1.4.3."""


def make_runs(num_columns: int, num_repeats: int) -> pd.DataFrame:
    """Return runs of all statuses, whose cells have all lines that a cell can have, and one with losses apart."""
    run = make_tables(*GRIDS["complete"])["runs"].iloc[[0]].astype(object)
    run = run.assign(
        disturbed=True,
        is_outlier=True,
        trajectory=1e-7,
        trajectory_limit=1e-3,
        protocol="no fair comparison",
        reason="it",
    )
    rows = [run.assign(framework="a", status="completed", num_gpus=2**column) for column in range(num_columns)]
    rows += [run.assign(framework=f"framework {status}", status=status) for status in STATUSES]
    rows += [run.assign(framework="apart", status="completed", trajectory=0.1)]
    return pd.concat(rows * num_repeats, ignore_index=True)


def find_luminance(colour) -> float:
    """Return the relative luminance of a colour of sRGB, by the definition of the same guidelines."""
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in to_rgb(colour)]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize(("num_columns", "num_repeats"), [(1, 1), (12, 10)])
def test_the_words_of_a_cell_are_inside_of_it_and_in_contrast_to_it(num_columns, num_repeats):
    figure = load_figure("run_grid").draw(runs=make_runs(num_columns, num_repeats))
    plt.close(figure)
    figure.draw_without_rendering()
    axes, checked = figure.axes[0], 0
    words = {text.get_position(): text for text in axes.texts}
    for cell in axes.patches:
        text = words[cell.get_x() + cell.get_width() / 2, cell.get_y() + cell.get_height() / 2]
        inside, around = text.get_window_extent(), cell.get_window_extent()
        assert around.x0 < inside.x0 and inside.x1 < around.x1, text.get_text()
        assert around.y0 < inside.y0 and inside.y1 < around.y1, text.get_text()
        darker, lighter = sorted([find_luminance(text.get_color()), find_luminance(cell.get_facecolor())])
        assert (lighter + 0.05) / (darker + 0.05) >= SMALLEST_CONTRAST, text.get_text()
        checked += 1
    assert checked == num_columns + len(STATUSES) + 1
