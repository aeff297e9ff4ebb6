"""Every figure shows the data of the tables, or says why there is nothing to show."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex, to_rgba_array
from matplotlib.figure import Figure

from figured import GRIDS, NAMES, SENTENCES, SERIES, make_tables
from howmanygpus.report.figures import describe_figure, list_figures, load_figure
from howmanygpus.report.figures.speedup import compute_accuracy_speedup
from howmanygpus.report.looks import COLOURS, style_of
from howmanygpus.report.style import name_series


def find_colours_of_marks(axes) -> set[str]:
    """Find the colours of the visible lines, points and bars. Dotted lines are left out, as they only guide the eye."""
    lines = [(line.get_color(), line.get_xydata()) for line in axes.lines if line.get_linestyle() != ":"]
    points = [(collection.get_facecolor(), collection.get_offsets()) for collection in axes.collections]
    bars = [(patch.get_facecolor(), [[patch.get_width(), patch.get_height()]]) for patch in axes.patches]
    bars = [(colour, size) for colour, size in bars if np.all(size)]
    seen = [colour for colour, places in (*lines, *points, *bars) if np.isfinite(places).all(axis=1).any()]
    return {colour for colours in seen for colour in map(to_hex, to_rgba_array(colours))}


def assert_is_drawn(figure: Figure, names: tuple[str, ...]) -> None:
    """Assert that every panel has marks, both axes have labels, and each name has the colour of a mark."""
    assert figure.axes and not figure.texts
    for axes in figure.axes:
        title = axes.get_title(loc="left")
        rows = [tick for sharing in axes.get_shared_y_axes().get_siblings(axes) for tick in sharing.get_yticklabels()]
        marks = find_colours_of_marks(axes)
        assert marks, f"nothing is drawn in {title!r}"
        for label, ticks in ((axes.get_xlabel(), axes.get_xticklabels()), (axes.get_ylabel(), rows)):
            in_words = [tick for tick in ticks if any(letter.isalpha() for letter in tick.get_text())]
            assert label or in_words, f"an axis of {title!r} does not say what it shows"
        texts = [*axes.texts, *rows]
        for name in names:
            assert any(name in text.get_text() for text in texts), f"{name} is not named in {title!r}"
        direct = {to_hex(text.get_color()).upper() for text in axes.texts} & {*COLOURS} - {"#000000"}
        assert direct <= {mark.upper() for mark in marks}, "a name stands beside nothing"


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("name", list_figures())
def test_a_figure_shows_marks_and_names_or_says_why_not(tmp_path, name, grid):
    tables = make_tables(tmp_path, *GRIDS[grid])
    figure = load_figure(name).draw(**{table: tables[table] for table in describe_figure(name).tables})
    figure.savefig(tmp_path / "figure.svg")
    plt.close(figure)
    sentence, empty_grids = SENTENCES.get(name, ("", ()))
    if grid in empty_grids:
        assert not figure.axes
        assert [text.get_text() for text in figure.texts] == [sentence]
    else:
        assert_is_drawn(figure, NAMES.get(name, SERIES))


def test_a_figure_without_marks_or_names_is_noticed():
    with pytest.raises(AssertionError, match="nothing is drawn"):
        assert_is_drawn(plt.subplots()[0], ())
    figure, axes = plt.subplots()
    axes.plot([1, 2], [float("nan")] * 2)
    with pytest.raises(AssertionError, match="nothing is drawn"):
        assert_is_drawn(figure, ())
    axes.plot([1, 2], [3, 4], color=COLOURS[0])
    with pytest.raises(AssertionError, match="does not say what it shows"):
        assert_is_drawn(figure, ())
    axes.set(xlabel="devices", ylabel="images/s")
    with pytest.raises(AssertionError, match="a base is not named"):
        assert_is_drawn(figure, SERIES)
    axes.annotate("a base", (0, 0), color=COLOURS[1])
    with pytest.raises(AssertionError, match="a name stands beside nothing"):
        assert_is_drawn(figure, ("a base",))
    plt.close("all")


def test_a_count_that_never_got_there_has_no_speedup_rather_than_zero(tmp_path):
    tables = make_tables(tmp_path, *GRIDS["largest never good"])
    speedup = compute_accuracy_speedup(tables["scaling"], tables["time_to_accuracy"], 0.9)
    largest = speedup[speedup["num_gpus"] == 4]
    assert largest["accuracy_speedup"].isna().all() and largest["is_never"].all()
    assert not speedup.loc[speedup["num_gpus"] == 2, "is_never"].any()


def draw_inputs(tmp_path, *inputs):
    """Return the texts of the figure that compares inputs. Each input is a tenth slower than the one before."""
    runs = make_tables(tmp_path, *GRIDS["complete"])["runs"]
    tables = [runs.assign(input=name, images_per_s=runs["images_per_s"] * 0.9**i) for i, name in enumerate(inputs)]
    figure = load_figure("real_against_synthetic").draw(runs=pd.concat(tables))
    figure.savefig(tmp_path / "figure.svg")
    plt.close(figure)
    assert_is_drawn(figure, tuple(f"{series}, 2 devices" for series in SERIES))
    return [text.get_text() for axes in figure.axes for text in axes.texts]


def test_every_form_of_real_images_is_compared_with_synthetic_ones(tmp_path):
    texts = draw_inputs(tmp_path, "synthetic", "arrays", "png", "jpeg")
    assert len([text for text in texts if text == "jpeg"]) == 9, "a bar for each series and device count"
    assert {text for text in texts if text.endswith("%")} == {"90%", "81%", "73%"}


def test_resident_input_is_what_all_others_are_compared_with(tmp_path):
    texts = draw_inputs(tmp_path, "resident", "synthetic", "arrays")
    assert len([text for text in texts if text == "resident"]) == 9, "a bar for each series and device count"
    assert {text for text in texts if text.endswith("%")} == {"90%", "81%"}


def test_forms_are_compared_with_arrays_where_nothing_is_synthetic(tmp_path):
    texts = draw_inputs(tmp_path, "arrays", "jpeg")
    assert {text for text in texts if text.endswith("%")} == {"90%"}


def test_inputs_have_lines_of_their_own(tmp_path):
    table = pd.DataFrame({"framework": "a", "variant": "base", "input": ["png", "jpeg"], "precision": "", "device": ""})
    assert name_series(table).tolist() == ["a png", "a jpeg"]


def test_a_study_goes_without_the_figures_that_compare_what_it_has_one_of():
    study = {"variants": {"base": {}}, "inputs": ["arrays", "synthetic"]}
    assert set(list_figures()) - set(list_figures(study, preflight=True)) == {"variants"}
    assert set(list_figures()) - set(list_figures(study | {"inputs": ["arrays"]})) == {
        *("variants", "real_against_synthetic", "allreduce")
    }


def test_more_names_than_colours_are_told_apart_by_their_markers():
    looks = style_of([f"framework{i}" for i in range(20)])
    assert len({(look["color"], look["marker"]) for look in looks.values()}) == 20
