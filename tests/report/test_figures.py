"""Every figure shows the data of the tables, or says why there is nothing to show."""

import itertools

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex, to_rgba_array
from matplotlib.figure import Figure
from matplotlib.text import Text

from helpers.figure_tables import GRIDS, GUESS, NAMES, SERIES, find_sentence, make_tables, unchanged
from howmanygpus import registry as registry
from howmanygpus.report.figures import describe_figure, list_figures, load_figure
from howmanygpus.report.figures.speedup import compute_accuracy_speedup
from howmanygpus.report.rows import leave_out_repeated, name_series
from howmanygpus.report.style import (
    COLOURS,
    FRAMEWORKS,
    GREY,
    MANY_SERIES,
    NOT_REACHED,
    STRIP,
    add_note,
    choose_styles,
    compute_contrast,
    darken,
    find_family,
    label_lines,
    make_panels,
)
from project import ROOT


@pytest.mark.parametrize("name", list_figures())
def test_every_figure_is_explained_on_the_page_of_figures(name):
    title = describe_figure(name).title
    assert f"**{title}** (`{name}`). " in " ".join((ROOT / "docs" / "figures.md").read_text().split())


def find_colours_of_marks(axes) -> set[str]:
    """Find the colours of the visible lines, points and bars. Dotted lines are left out, as they only guide the eye."""
    lines = [(line.get_color(), line.get_xydata()) for line in axes.lines if line.get_linestyle() != ":"]
    points = [(collection.get_facecolor(), collection.get_offsets()) for collection in axes.collections]
    bars = [(patch.get_facecolor(), [patch.get_extents().size]) for patch in axes.patches]
    bars = [(colour, size) for colour, size in bars if np.all(size)]
    seen = [colour for colour, places in (*lines, *points, *bars) if np.isfinite(places).all(axis=1).any()]
    return {colour for colours in seen for colour in map(to_hex, to_rgba_array(colours))}


def assert_is_drawn(figure: Figure, names: tuple[str, ...]) -> None:
    """Assert that every panel has marks, both axes have labels, and each name has the colour of a mark."""
    assert figure.axes and all(text.get_text() == figure.get_suptitle() for text in figure.texts)
    for axes in figure.axes:
        title = axes.get_title(loc="left")
        rows = [tick for sharing in axes.get_shared_y_axes().get_siblings(axes) for tick in sharing.get_yticklabels()]
        marks = find_colours_of_marks(axes)
        assert marks, f"nothing is drawn in {title!r}"
        along = "".join(sharing.get_xlabel() for sharing in axes.get_shared_x_axes().get_siblings(axes))
        beside = "".join(sharing.get_ylabel() for sharing in axes.get_shared_y_axes().get_siblings(axes))
        for label, ticks in ((along, axes.get_xticklabels()), (beside, rows)):
            in_words = [tick for tick in ticks if any(letter.isalpha() for letter in tick.get_text())]
            assert label or in_words, f"an axis of {title!r} does not say what it shows"
        texts = [*axes.texts, *rows]
        for name in names:
            assert any(name in text.get_text() for text in texts), f"{name} is not named in {title!r}"
        direct = {to_hex(text.get_color()) for text in axes.texts} & {*map(darken, COLOURS)} - {"#000000"}
        assert direct <= set(map(darken, marks)), "a name stands beside nothing"


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("name", list_figures())
def test_a_figure_shows_marks_and_names_or_says_why_not(tmp_path, name, grid):
    tables = make_tables(*GRIDS[grid])
    figure = load_figure(name).draw(**{table: tables[table] for table in describe_figure(name).tables})
    figure.savefig(tmp_path / "figure.svg")
    plt.close(figure)
    sentence = find_sentence(name, grid)
    if sentence:
        assert not figure.axes
        assert [text.get_text() for text in figure.texts] == [sentence]
    else:
        assert_is_drawn(figure, NAMES.get(name, SERIES))


HEADLINES = {
    "decision": ("1 device", "2 are 1 x as fast", "x the price"),
    "price": ("accuracy 0.9", "EUR", "a base on 1 device"),
    "time_split": ("45 %", "start-up"),
    "variants": ("best 1.00 x", "base"),
    "speedup": ("1 to 4 devices", "4 x"),
    "throughput_by_gpus": ("400 images/s", "4 devices"),
    "time_to_accuracy": ("0.9", "1 s"),
    "quality_by_epoch": ("0.95",),
}
"""What the headline of a figure of the grid `complete` says, as far as it has numbers of the tables."""


@pytest.mark.parametrize("name", HEADLINES)
def test_a_headline_says_in_numbers_what_to_see(name):
    tables = make_tables(*GRIDS["complete"])
    figure = load_figure(name).draw(**{table: tables[table] for table in describe_figure(name).tables})
    plt.close(figure)
    headline = " ".join(figure.get_suptitle().split())
    assert all(part in headline for part in HEADLINES[name]), headline


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
    axes.annotate("a base", (0, 0), color=darken(COLOURS[1]))
    with pytest.raises(AssertionError, match="a name stands beside nothing"):
        assert_is_drawn(figure, ("a base",))
    plt.close("all")


def test_names_beside_lines_do_not_overlap_at_the_height_that_the_panel_has_at_last(tmp_path):
    """Notes that are added behind the names make the panel half as high."""
    figure, (axes,) = make_panels(["a panel"])
    axes.set(xlim=(0, 1), ylim=(0, 1))
    label_lines(axes, {f"name {i}": (1.0, 0.5, GREY) for i in range(7)})
    for _ in range(4):
        add_note(axes, "a note")
    figure.savefig(tmp_path / "figure.png")
    plt.close(figure)
    extents = sorted((Text.get_window_extent(text) for text in axes.texts), key=lambda box: box.y0)
    assert len(extents) == 7
    assert all(below.y1 < above.y0 for below, above in itertools.pairwise(extents))
    middles = [(box.y0 + box.y1) / 2 for box in extents]
    assert axes.bbox.y0 - 1 <= middles[0] and middles[-1] <= axes.bbox.y1 + 1


def test_a_count_that_never_got_there_has_no_speedup_rather_than_zero():
    tables = make_tables(*GRIDS["largest never good"])
    speedup = compute_accuracy_speedup(tables["scaling"], tables["time_to_accuracy"], 0.9)
    largest = speedup[speedup["num_gpus"] == 4]
    assert largest["accuracy_speedup"].isna().all() and largest["is_never"].all()
    assert not speedup.loc[speedup["num_gpus"] == 2, "is_never"].any()


def test_a_count_that_misses_the_threshold_is_a_labelled_cross(tmp_path):
    figure = draw(tmp_path, "speedup", grid="largest never good")
    figure.savefig(tmp_path / "figure.png")
    never = [axes for axes in figure.axes if "time to 0.9" in axes.get_title(loc="left")]
    for axes in never:
        crosses = [line for line in axes.lines if line.get_marker() == "x"]
        assert [sorted(line.get_xdata()) for line in crosses] == [[4]] * len(SERIES)
        heights = [height for line in crosses for height in line.get_ydata()]
        assert max(heights) < min(axes.get_yticks()), "a cross is outside the scale, so that it is no number"
        assert [tick.get_text() for tick in axes.get_yticklabels(minor=True)] == [NOT_REACHED]
        names = [text for text in axes.texts if "not reached" in text.get_text()]
        assert [text.get_text() for text in names] == [f"{series} not reached" for series in SERIES]
        extents = [Text.get_window_extent(text) for text in axes.texts]
        assert not any(one.overlaps(other) for one, other in itertools.combinations(extents, 2))
    assert never


def test_without_two_device_counts_there_is_no_speedup(tmp_path):
    figure = draw(tmp_path, "speedup", keep=keep_one_count)
    said = [text.get_text() for text in figure.texts]
    assert not figure.axes
    assert said == ["No run on real images has completed on a second device count; the figure of all runs says why."]


def draw_inputs(tmp_path, *inputs):
    """Return the texts of the figure that compares inputs. Each input is a tenth slower than the one before."""
    runs = make_tables(*GRIDS["complete"])["runs"]
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


def test_other_inputs_are_compared_with_resident_input(tmp_path):
    texts = draw_inputs(tmp_path, "resident", "synthetic", "arrays")
    assert len([text for text in texts if text == "resident"]) == 9, "a bar for each series and device count"
    assert {text for text in texts if text.endswith("%")} == {"90%", "81%"}


def test_a_loader_without_random_images_is_compared_with_those_of_the_first_variant(tmp_path):
    runs = make_tables(*GRIDS["complete"])["runs"]
    runs = runs[runs["variant"] == runs["variant"].iloc[0]]
    native = runs.assign(input="png", variant="native", images_per_s=runs["images_per_s"] * 0.5)
    tables = [runs.assign(input="synthetic"), native]
    figure = load_figure("real_against_synthetic").draw(runs=pd.concat(tables))
    texts = [text.get_text() for axes in figure.axes for text in axes.texts]
    plt.close(figure)
    names = {text.get_text() for axes in figure.axes for text in axes.get_yticklabels()}
    assert {name.split(",")[0].split()[0] for name in names} == set(runs["framework"])
    assert all("native" in name for name in names), "the first variant has random images alone"
    assert {text for text in texts if text.endswith("%")} == {"50%"}


def test_forms_are_compared_with_arrays_where_nothing_is_synthetic(tmp_path):
    texts = draw_inputs(tmp_path, "arrays", "jpeg")
    assert {text for text in texts if text.endswith("%")} == {"90%"}


def test_inputs_have_lines_of_their_own(tmp_path):
    table = pd.DataFrame({"framework": "a", "variant": "base", "input": ["png", "jpeg"], "precision": "", "device": ""})
    table["placement"] = "fewest nodes"
    assert name_series(table).tolist() == ["a png", "a jpeg"]


def test_a_figure_grows_with_the_names_beside_its_lines():
    for count, length in ((3, 60), (30, 5)):
        figure, panels = make_panels(["one", "other"], panel_size=(4.0, 3.0))
        for axes in panels:
            axes.plot([0, 1], [0, 1])
            axes.set_ylabel("what is drawn (unit)")
            label_lines(axes, {f"{i:02}{'x' * length}": (1.0, 0.5, GREY) for i in range(count)})
        figure.canvas.draw()
        boxes = [axes.get_window_extent() for axes in panels]
        assert min(box.width for box in boxes) > 1.2 * figure.dpi, "the lines have room"
        names = [text.get_window_extent() for axes in panels for text in axes.texts]
        assert all(box.y0 < figure.bbox.y1 and box.y1 > 0 for box in names)
        assert names[count - 1].x1 < boxes[1].x0, "names end before the next panel"


def test_a_study_omits_figures_that_compare_a_single_value():
    study = {"variants": {"base": {}}, "inputs": ["arrays", "synthetic"], "per_device_batch_size": [8, 16]}
    study |= {"num_nodes": [1, 2], "trace": True, "num_gpus": [1, 2]}
    study |= {"protocols": {"first_epoch_inside": True, "eval_other_images": {}}}
    published = ("price", "images_per_s", "quality_metric", "epochs_by_batch")
    shown = list_figures(study, preflight=True, priced=True, published=published)
    assert set(list_figures()) - set(shown) == {"variants"}
    one = {"inputs": ["arrays"], "per_device_batch_size": [8], "num_nodes": None, "trace": False, "num_gpus": [1]}
    assert set(list_figures()) - set(list_figures(study | one)) == {
        *("variants", "placement", "real_against_synthetic", "input_parts", "allreduce", "batch_sizes", "price"),
        *("traces", "speedup", "throughput_by_batch_size"),
        *("published_throughput", "published_quality", "published_price", "published_epochs"),
    }
    assert "published_price" not in list_figures(study, published=("images_per_s",))
    fair = {"first_epoch_inside": False, "eval_other_images": {}}
    assert "protocols" in shown and "protocols" not in list_figures(study | {"protocols": fair})


PROGRAM = {"inputs": ["program"], "variants": {"base": {}, "best": {}}, "per_device_batch_size": [8, 16]}
PROGRAM |= {"num_nodes": [1, 2], "trace": False, "protocols": {}, "num_gpus": [1, 2]}
OF_PROGRAMS = list_figures(PROGRAM, preflight=True, priced=True, published=("images_per_s", "epochs_by_batch"))
WITH_UNIT = (
    "batch_sizes",
    "decision",
    "placement",
    "price",
    "quality_by_epoch",
    "run_grid",
    "step_times",
    "time_split",
)
WITH_UNIT += ("throughput_by_batch_size", "throughput_by_gpus", "published_throughput", "published_epochs")


@pytest.mark.parametrize("name", OF_PROGRAMS)
def test_figures_of_a_program_have_its_unit_in_place_of_images(tmp_path, name):
    tables = make_tables(*GRIDS["complete"], unit="tokens")
    figure = load_figure(name).draw(**{table: tables[table] for table in describe_figure(name).tables})
    figure.savefig(tmp_path / "figure.svg")
    plt.close(figure)
    words = " ".join(text.get_text() for text in figure.findobj(Text))
    assert "token" in words or name not in WITH_UNIT
    assert "published" in name or not ("image" in words or "samples" in words), words


def draw(tmp_path, name, change=unchanged, grid="complete", keep=lambda table: table):
    """Draw a figure of a grid. change: changes the tables of runs and losses; keep: chooses rows of the figure's."""
    tables = make_tables(*GRIDS[grid], change)
    figure = load_figure(name).draw(**{table: keep(tables[table]) for table in describe_figure(name).tables})
    figure.savefig(tmp_path / "figure.svg")
    plt.close(figure)
    return figure


def find_texts(figure) -> list[str]:
    """Return all texts of the panels, with their titles and labels."""
    own = [
        [axes.get_title(loc="left"), axes.get_xlabel(), *(text.get_text() for text in axes.texts)]
        for axes in figure.axes
    ]
    return [text for texts in own for text in texts]


def keep_one_count(table):
    return table[table["num_gpus"] == 1]


@pytest.mark.parametrize("name", ["throughput_by_gpus", "speedup"])
def test_ideal_scaling_is_named_only_where_a_line_is_drawn(tmp_path, name):
    for keep, is_there in ((lambda table: table, True), (keep_one_count, False)):
        figure = draw(tmp_path, name, keep=keep)
        dotted = [line for axes in figure.axes for line in axes.lines if line.get_linestyle() == ":"]
        assert (bool(dotted), any("ideal" in text for text in find_texts(figure))) == (is_there, is_there)


def test_without_a_baseline_no_ideal_scaling_is_named(tmp_path):
    assert not any("ideal" in text for text in find_texts(draw(tmp_path, "throughput_by_gpus", grid="baseline failed")))


MANY = ["pytorch_ddp", "horovod_pytorch", "keras_mirrored", "horovod_keras", "tensorflow_mirrored", "jax_sharding"]
MANY += [
    "tensorflow_multiworker",
    "pytorch_dp",
    "horovod_tensorflow",
    "mxnet_gluon",
    "chainer_mn",
    "toy",
    "another_toy",
]


def draw_many(name, grid="complete", names=MANY):
    """Draw a figure of a series for each framework; every next one is a tenth slower."""
    tables = make_tables(*GRIDS[grid])
    slower = {"images_per_s": -1, "time_to_accuracy_s": 1, "time_with_start_s": 1}

    def copy(table):
        one = table[(table["framework"] == "a") & (table["variant"] == "base")]
        copies = []
        for number, framework in enumerate(names):
            changed = {column: one[column] * 1.1 ** (sign * number) for column, sign in slower.items() if column in one}
            copies.append(one.assign(framework=framework, **changed))
        return pd.concat(copies, ignore_index=True)

    figure = load_figure(name).draw(**{table: copy(tables[table]) for table in describe_figure(name).tables})
    figure.canvas.draw()
    plt.close(figure)
    return figure


def find_grey(axes):
    return [line for line in axes.lines if line.get_alpha() == 0.35]


@pytest.mark.parametrize(
    "name", ["time_to_accuracy", "time_with_start", "speedup", "quality_by_epoch", "throughput_by_gpus"]
)
def test_many_series_have_panels_of_each_family_with_the_others_in_grey_on_the_same_axes(name):
    figure = draw_many(name)
    families = {}
    for axes in figure.axes:
        families.setdefault(axes.get_title(loc="left").partition(": ")[0], []).append(axes)
    assert list(families) == list(dict.fromkeys(map(find_family, MANY)))
    assert len({len(panels) for panels in families.values()}) == 1
    for family, panels in families.items():
        own = {framework for framework in MANY if find_family(framework) == family}
        for axes in panels:
            assert {text.get_text().rstrip(" *") for text in axes.texts} & set(MANY) == own
            assert len(find_grey(axes)) == len(MANY) - len(own)
    for column in zip(*families.values(), strict=True):
        assert len({(axes.get_xlim(), axes.get_ylim()) for axes in column}) == 1


@pytest.mark.parametrize("name", ["time_to_accuracy", "speedup", "quality_by_epoch"])
def test_few_series_share_a_panel(name):
    figure = draw_many(name, names=MANY[:MANY_SERIES])
    assert not any(find_grey(axes) for axes in figure.axes)
    for axes in figure.axes:
        assert {text.get_text().rstrip(" *") for text in axes.texts} >= set(MANY[:MANY_SERIES])


def test_a_row_of_crosses_leaves_the_same_room_in_the_panels_of_all_families():
    figure = draw_many("time_to_accuracy", "largest never good")
    crossed = [axes for axes in figure.axes if any(line.get_marker() == "x" for line in axes.lines)]
    assert crossed and len({axes.get_ylim() for axes in crossed}) == 1


@pytest.mark.parametrize(("missed", "titles"), [([0.9], ["0.5 and 0.9", "0.5"]), ([0.5, 0.9], ["0.5 and 0.9"])])
def test_a_threshold_that_a_curve_never_reached_has_a_note_instead_of_a_panel(tmp_path, missed, titles):
    """Strong scaling has one device alone, which weak scaling here lacks."""

    def be_late(table):
        if "scaling_mode" in table:
            return table[(table["scaling_mode"] == "strong") | (table["num_gpus"] > 1)]
        if "threshold" not in table:
            return table
        is_late = table["threshold"].isin(missed) & (table["num_gpus"] == 1)
        times = table["time_to_accuracy_s"].mask(is_late)
        return table.assign(reached=table["reached"] & ~is_late, time_to_accuracy_s=times)

    figure = draw(tmp_path, "time_to_accuracy", keep=be_late)
    assert [axes.get_title(loc="left").split("\n")[0] for axes in figure.axes] == [
        f"test accuracy {thresholds} (majority class: 0.07)" for thresholds in titles
    ]
    words = [" ".join(axes.get_xlabel().split()) for axes in figure.axes]
    if len(missed) == 1:
        assert "accuracy 0.9: reached by no configuration in most repeats" in words[1]
    else:
        note = "strong scaling, 8 images over all devices: accuracy 0.5 and 0.9: reached by no configuration"
        assert note in words[0]


def test_a_speedup_without_a_baseline_has_a_note_instead_of_a_panel(tmp_path):
    (axes,) = draw(tmp_path, "speedup", grid="never good").axes
    assert axes.get_title(loc="left").endswith("speed-up of throughput")
    assert "time to 0.5 and 0.9: no baseline reached it" in axes.get_xlabel()


@pytest.mark.parametrize("name", list_figures())
def test_names_of_series_have_enough_contrast_to_white(tmp_path, name):
    figure = draw(tmp_path, name, grid="largest never good")
    texts = [text for axes in figure.axes for text in axes.texts if any(each in text.get_text() for each in SERIES)]
    assert all(compute_contrast(to_hex(text.get_color()), "#FFFFFF") >= 4.5 for text in texts)


def test_colours_of_text_have_contrast_and_dark_ones_stay():
    for colour in (*COLOURS, *(colour for colour, _ in FRAMEWORKS.values())):
        assert compute_contrast(darken(colour), STRIP) >= 4.5
    assert compute_contrast("#767676", "#FFFFFF") == pytest.approx(4.54, abs=0.01), "as in WCAG's examples"
    assert darken("#332288") == "#332288"


def test_a_framework_keeps_its_colour_whatever_else_is_drawn():
    alone, among = (
        choose_styles(["keras_mirrored"]),
        choose_styles(["chainer_mn", "keras_mirrored best", "pytorch_ddp"]),
    )
    assert alone["keras_mirrored"]["color"] == among["keras_mirrored best"]["color"]
    assert alone["keras_mirrored"]["marker"] == among["keras_mirrored best"]["marker"]
    assert choose_styles(["toy"])["toy"]["color"] == choose_styles(["another", "toy png"])["toy png"]["color"]


def test_series_of_one_framework_share_its_colour_and_differ_in_marker_and_line():
    looks = list(choose_styles(["pytorch_ddp base", "pytorch_ddp best"]).values())
    assert looks[0]["color"] == looks[1]["color"]
    assert looks[0]["marker"] != looks[1]["marker"] and looks[0]["linestyle"] != looks[1]["linestyle"]


def test_each_framework_of_the_registry_has_a_look_of_its_own():
    assert FRAMEWORKS.keys() == registry.FRAMEWORKS.keys()
    assert len({colour for colour, _ in FRAMEWORKS.values()}) == len(FRAMEWORKS)


def test_the_all_reduce_figure_names_the_nodes(tmp_path):
    texts = find_texts(draw(tmp_path, "allreduce"))
    assert any("2 devices: n1\n4 devices: n1 n2" in text for text in texts)


@pytest.mark.parametrize("name", ["time_to_accuracy", "time_with_start", "speedup"])
def test_a_threshold_stands_beside_the_majority_class(tmp_path, name):
    assert any("(majority class: 0.07)" in text for text in find_texts(draw(tmp_path, name)))


def test_the_majority_class_is_a_thin_line_with_a_label(tmp_path):
    figure = draw(tmp_path, "quality_by_epoch")
    for axes in figure.axes:
        lines = [line for line in axes.lines if set(np.unique(line.get_ydata())) == {GUESS}]
        assert [line.get_linewidth() < 1 for line in lines] == [True]
        assert "majority class: 0.07" in [text.get_text() for text in axes.texts]
        assert axes.get_ylim()[0] == 0


def test_variants_name_the_majority_class_beyond_the_edge_or_draw_it(tmp_path):
    assert any("\N{LEFTWARDS ARROW} majority class: 0.07" in text for text in find_texts(draw(tmp_path, "variants")))

    def be_close(table):
        if "quality_of_guess" in table:
            table["quality_of_guess"] = 0.945

    figure = draw(tmp_path, "variants", be_close)
    assert any(line.get_linewidth() < 1 and line.get_linestyle() == "-" for line in figure.axes[1].lines)
    assert "majority class: 0.945" in find_texts(figure)


def test_equal_values_of_series_do_not_hide_each_other():
    sizes = [look["markersize"] for look in choose_styles(["pytorch_ddp", "keras_mirrored", "chainer_mn"]).values()]
    assert sizes == sorted(sizes, reverse=True) and len(set(sizes)) == 3


def test_more_names_than_colours_are_told_apart_by_their_markers():
    looks = choose_styles([f"framework{i}" for i in range(20)])
    assert len({(look["color"], look["marker"]) for look in looks.values()}) == 20


@pytest.mark.parametrize("silent", [1, None])
def test_a_program_that_does_not_tell_when_its_start_ended_is_left_out(tmp_path, silent):
    """silent: how many frameworks are such programs; None for all."""

    def forget(table):
        if "time_with_start_s" not in table:
            return table
        is_known = ~table["framework"].isin(table["framework"].unique()[:silent])
        times = table["time_with_start_s"].where(is_known)
        return table.assign(time_with_start_s=times, reached=table["reached"] | ~is_known)

    figure = draw(tmp_path, "time_with_start", keep=forget)
    said = [text.get_text() for text in figure.texts]
    assert ("No program reported step 0, which ends its start." in said) == (silent is None)


def test_a_curve_on_one_device_count_is_drawn_only_if_no_other_shows_it():
    """A global batch of 16 on one device is also the first point of the curve with 16 images per device."""
    columns = ["curve", "series", "num_nodes", "num_gpus", "per_device_batch_size", "threshold"]
    weak = [("16 per device", "a", 1, 1, 16, 0.9), ("16 per device", "a", 1, 2, 16, 0.9)]
    repeated, own = ("16 over all", "a", 1, 1, 16, 0.9), ("8 over all", "a", 1, 1, 8, 0.9)
    kept = leave_out_repeated(pd.DataFrame([*weak, repeated, own], columns=columns), "threshold")
    assert list(kept["curve"]) == ["16 per device", "16 per device", "8 over all"]


def list_titles(figure):
    return [axes.get_title(loc="left") for axes in figure.axes]


def test_rates_on_one_device_that_another_curve_shows_have_no_panel(tmp_path):
    def repeat_first(table):
        if "scaling_mode" not in table:
            return table
        return pd.concat([table, table[table["num_gpus"] == 1].assign(scaling_mode="strong", curve="strong")])

    titles = list_titles(draw(tmp_path, "throughput_by_gpus"))
    assert list_titles(draw(tmp_path, "throughput_by_gpus", keep=repeat_first)) == titles


@pytest.mark.parametrize(
    ("more", "titles"),
    [
        ([], ["1 device", "2 devices", "4 devices"]),
        ([1], ["1 device"]),
        ([1, 4], ["1 device", "4 devices"]),
    ],
)
def test_device_counts_with_one_batch_size_have_no_panel_beside_those_with_several(tmp_path, more, titles):
    def add_batches(table):
        return pd.concat([table, table[table["num_gpus"].isin(more)].assign(per_device_batch_size=16)])

    assert list_titles(draw(tmp_path, "throughput_by_batch_size", keep=add_batches)) == titles
