"""A figure looks the same whatever a user's shell and home folder say."""

import os
import re
import subprocess
import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.transforms import Bbox
from PIL import Image

from howmanygpus.report.style import (
    add_headline,
    add_note,
    arrange,
    label_lines,
    make_panels,
    save_figure,
    save_svg,
    share_labels,
    thin_blocks,
)

CODE = """
from howmanygpus.report import style
import matplotlib.pyplot as plt
import sys
plt.plot([1, 2])
plt.savefig(sys.argv[1], metadata={"Date": None})
"""


def test_a_users_settings_of_matplotlib_change_no_figure(tmp_path):
    (tmp_path / "matplotlibrc").write_text("axes.facecolor: black\nlines.linewidth: 9\nfigure.figsize: 1, 1\n")
    own = {"MATPLOTLIBRC": str(tmp_path / "matplotlibrc"), "MPLBACKEND": "no_such_backend"}
    given = {name: value for name, value in os.environ.items() if name not in own}
    figures = []
    for number, variables in enumerate(({}, own)):
        environment = given | {"PYTHONPATH": os.pathsep.join(sys.path)} | variables
        figure = tmp_path / f"{number}.svg"
        subprocess.run([sys.executable, "-c", CODE, figure], env=environment, check=True)
        figures.append(figure.read_text())
    assert figures[0] == figures[1]


def read_lines(svg):
    """Return the parts of each line of an SVG that has more than 50 points, as arrays of points."""
    paths = re.findall(r' d="([^"]*)"', svg.read_text())
    parts = [re.findall(r"-?[\d.]+", part) for path in paths if not re.search("[CQ]", path) for part in path.split("M")]
    return [np.array(numbers, float).reshape(-1, 2) for numbers in parts if len(numbers) > 100]


def test_long_lines_of_an_svg_are_short_texts_and_differ_by_less_than_a_tenth_of_a_point(tmp_path):
    figure, axes = plt.subplots()
    values = np.random.default_rng(0).random(500)
    values[250] = np.nan
    axes.plot(values)
    box = Bbox([[0.0, 0.0], figure.get_size_inches()])
    save_svg(figure, tmp_path / "short.svg", box)
    figure.savefig(tmp_path / "long.svg", bbox_inches=box, metadata={"Date": None})
    plt.close(figure)
    short, long = (read_lines(tmp_path / f"{name}.svg") for name in ("short", "long"))
    assert len(short) == len(long) == 2
    assert all(np.abs(one - other).max() <= 0.0501 for one, other in zip(short, long, strict=True))
    sizes = [(tmp_path / f"{name}.svg").stat().st_size for name in ("short", "long")]
    assert sizes[0] < 0.7 * sizes[1]


def test_both_files_of_a_figure_have_all_that_is_drawn_and_a_margin(tmp_path):
    """A name may stand outside the panels. The layout is done once, and must be that of matplotlib's own tight box."""
    sizes = []
    for name in ("own", "tight"):
        figure, panels = make_panels(["a panel", "another"])
        label_lines(panels[-1], {"a name that is longer than the figure is wide on this side": (1.0, 1.0, "#0072B2")})
        if name == "own":
            save_figure(figure, tmp_path / "own.svg", tmp_path / "own.png")
        else:
            figure.savefig(tmp_path / "tight.png", bbox_inches="tight", dpi=150)
        plt.close(figure)
        with Image.open(tmp_path / f"{name}.png") as image:
            sizes.append(image.size)
    assert sizes[0] == pytest.approx(sizes[1], abs=8)
    svg = re.search(r'width="([\d.]+)pt" height="([\d.]+)pt"', (tmp_path / "own.svg").read_text())
    assert [float(size) / 72 * 150 for size in svg.groups()] == pytest.approx(sizes[0], abs=2)


def test_the_line_to_a_name_is_broken_where_it_crosses_a_panel_whose_limits_are_set():
    figure, panels = make_panels(["free", "set"])
    panels[1].set_xlim(0, 10)
    for panel in panels:
        panel.plot([0, 5], [1, 1])
        label_lines(panel, {"a": (5.0, 1.0, "#0072B2")})
    figure.canvas.draw()
    free, crossing = (panel.texts[0].arrow_patch.get_linestyle() for panel in panels)
    assert free in ("-", "solid") and crossing == (0, (1, 3))


def test_the_line_to_a_name_is_straight_and_ends_beside_both():
    figure, (panel,) = make_panels(["scaling"])
    panel.plot([1, 2], [1, 2])
    label_lines(panel, {"far": (1, 1, "#0072B2"), "near": (2, 2, "#D55E00")})
    figure.canvas.draw()
    for text, end in zip(panel.texts, ((1, 1), (2, 2)), strict=True):
        points = text.arrow_patch.get_transform().transform(text.arrow_patch.get_path().vertices)
        assert len(points) == 2
        # 2 points of 1/72 inch before it
        gap, beyond = 2 * figure.dpi / 72, panel.transData.transform(end) - points[0]
        assert points[1] - points[0] == pytest.approx(beyond * (1 - gap / np.hypot(*beyond)), abs=0.01)
    plt.close(figure)


def make_noted(limits, num_panels=4):
    """Return a figure whose panels have the same labels and a note, and its first panel another note."""
    figure, panels = make_panels([str(number) for number in range(num_panels)])
    for panel, top in zip(panels, limits, strict=True):
        panel.set_xlabel("devices")
        panel.set_ylabel("images/s")
        panel.set_ylim(0, top)
        add_note(panel, "a ring is a mark")
    add_note(panels[0], "about the first")
    return figure, panels


def test_labels_and_notes_that_panels_share_stand_once_and_shared_axes_have_one_scale(tmp_path):
    figure, panels = make_noted([5, 5, 5, 7])
    add_headline(figure, "Twice as fast on 2 devices")
    save_svg(figure, tmp_path / "shared.svg")
    text = (tmp_path / "shared.svg").read_text()
    plt.close(figure)
    assert text.count(">a ring is a mark<") == text.count(">about the first<") == 1
    # Two columns and two rows: the label is below each column and left of each row.
    assert text.count(">devices<") == 2 and text.count(">images/s<") == 2
    numbered = [any(label.get_visible() for label in panel.get_yticklabels()) for panel in panels]
    assert numbered == [True, False, True, True]
    assert "Twice as fast on" in text.replace("\N{NO-BREAK SPACE}", " ")


def test_a_panel_alone_keeps_its_notes_below_its_axis():
    figure, (panel,) = make_noted([5], num_panels=1)
    share_labels(figure)
    plt.close(figure)
    assert panel.get_xlabel() == "devices\na ring is a mark\nabout the first"


def test_a_figure_grows_by_what_stands_above_and_below_its_panels():
    heights = []
    for headline in ("", "What is to be seen"):
        figure, _ = make_noted([5, 5, 5, 5])
        add_headline(figure, headline)
        share_labels(figure)
        heights.append(figure.get_size_inches()[1])
        plt.close(figure)
    assert heights[1] > heights[0] > make_panels(["0", "1", "2", "3"])[0].get_size_inches()[1]


@pytest.mark.parametrize(("rows", "kept"), [([9], [4]), ([3, 3], [2, 2]), ([2] * 6, [1] * 4), ([3], [3])])
def test_a_figure_has_at_most_four_panels_with_the_first_and_the_last(rows, kept):
    blocks = [[f"{row} {place}" for place in range(size)] for row, size in enumerate(rows)]
    thinned, left_out = thin_blocks(blocks)
    assert [len(block) for block in thinned] == kept and left_out == sum(rows) - sum(kept)
    assert all(block[-1] == whole[-1] for block in thinned for whole in blocks if block[-1] in whole)
    columns, placed = arrange(thinned)
    assert columns <= 4 and len([panel for panel in placed if panel]) == sum(kept)


def test_each_family_keeps_a_panel():
    assert [len(block) for block in thin_blocks([[1, 2, 3]] * 6, has_families=True)[0]] == [1] * 6
