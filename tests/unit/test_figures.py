"""Every figure shows the data of the tables, or says why there is nothing to show."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex, to_rgba_array
from matplotlib.figure import Figure

from howmanygpus.report.figures import describe_figure, list_figures, load_figure
from howmanygpus.report.figures.run_grid import SAYS_APART
from howmanygpus.report.figures.speedup import choose_threshold, compute_accuracy_speedup
from howmanygpus.report.files import read_table, write_table
from howmanygpus.report.outcomes import IDENTITY
from howmanygpus.report.style import COLOURS, FAILED_NOTE, RING, RING_NOTE, STAR_NOTE, name_series, style_of
from howmanygpus.report.tables.allreduce import tabulate
from howmanygpus.report.tables.evaluations import COLUMNS as EVALUATION
from howmanygpus.report.tables.losses import COLUMNS as LOSSES
from howmanygpus.report.tables.runs import COLUMNS as RUNS
from howmanygpus.report.tables.scaling import compute_scaling
from howmanygpus.report.tables.time_to_accuracy import COLUMNS as TIMES
from howmanygpus.report.tables.time_to_accuracy import CONFIGURATION, compute_time_to_accuracy
from howmanygpus.report.tables.variants import compute_variants
from specs import make_spec

ALLREDUCES = [
    {
        **{"device": "d", "num_gpus": count, "num_nodes": 1},
        "sizes": [{"size_mib": 1, "median_s": 0.001 * count}, {"size_mib": 16, "median_s": 0.01 * count}],
    }
    for count in (2, 4)
]
QUALITY = {"metric": "accuracy", "thresholds": [0.5, 0.9], "margin": 0.01}


SERIES = ("a base", "b base", "b best")


def make_tables(folder, status_of, accuracy_of, change=lambda table: None):
    """Make tables of SERIES on 3 device counts with 2 repeats; they are written and read as the workflow does.

    change: is called with the tables of runs and losses, from which the others are made.
    """
    runs, evaluations, losses = [], [], []
    for framework, variant in (("a", "base"), ("b", "base"), ("b", "best")):
        for num_gpus in (1, 2, 4):
            for repeat in (1, 2):
                names = {"framework": framework, "variant": variant, "repeat": repeat}
                spec = make_spec(**names, num_gpus=num_gpus, global_batch_size=8 * num_gpus)
                identity, status = {key: getattr(spec, key) for key in IDENTITY}, status_of(num_gpus)
                row = identity | {
                    "run_dir": f"results/runs/{framework}",
                    "status": status,
                    "reason": "" if status == "completed" else f"why {status}",
                    **{"init_s": 3.0, "compile_s": 1.0},
                }
                if status == "completed":
                    row |= {"images_per_s": 100.0 * num_gpus, "quality_best": accuracy_of(num_gpus)}
                    row |= {"quality_last": accuracy_of(num_gpus), "quality_metric": "accuracy"}
                    moment = {"epoch": 1, "train_s": 1.0, "wall_s": 2.0, "quality": accuracy_of(num_gpus)}
                    evaluations.append(identity | moment)
                    losses += [identity | {"last_step": step, "loss": 2.0 / step} for step in (1, 6)]
                runs.append(row)
    tables = {
        "runs": pd.DataFrame(runs, columns=list(RUNS)),
        "evaluations": pd.DataFrame(evaluations, columns=list(EVALUATION)),
        "losses": pd.DataFrame(losses, columns=list(LOSSES)),
    }
    change(tables["runs"])
    change(tables["losses"])
    tables = {name: written(folder, name, table) for name, table in tables.items()}
    tables["scaling"] = written(
        folder, "scaling", compute_scaling(tables["runs"], {"weak": [8], "strong": [8]}, {"a": "machinery"})
    )
    accuracy = compute_time_to_accuracy(tables["runs"], tables["evaluations"], QUALITY)
    tables["time_to_accuracy"] = written(folder, "time_to_accuracy", accuracy)
    tables["allreduce"] = written(folder, "allreduce", tabulate({}, ALLREDUCES))
    return tables | {"variants": written(folder, "variants", compute_variants(tables["runs"], ["base", "best"], 0.01))}


def written(folder, name, table):
    write_table(folder / f"{name}.tsv", table)
    return read_table(folder / f"{name}.tsv")


GRIDS = {
    "complete": (lambda count: "completed", lambda count: 0.95),
    "nothing run": (lambda count: "missing", lambda count: None),
    "all failed": (lambda count: "crashed", lambda count: None),
    "baseline failed": (lambda count: "out_of_memory" if count == 1 else "completed", lambda count: 0.95),
    "largest never good": (lambda count: "completed", lambda count: 0.6 if count == 4 else 0.95),
    "never good": (lambda count: "completed", lambda count: 0.1),
}


NAMES = {
    "allreduce": ("1 MiB", "16 MiB"),
    "run_grid": tuple(f"{series} arrays fp32 cpu" for series in SERIES),
    "variants": ("best b, 2 devices", "best b, 4 devices"),
}
"""The names in each panel of a figure, if they are not SERIES."""
NONE_COMPLETED = ("nothing run", "all failed")
SENTENCES = {
    "loss_of_first_epoch": ("No run on real images has recorded its first epoch yet.", NONE_COMPLETED),
    "real_against_synthetic": ("No configuration has completed on more than one input.", tuple(GRIDS)),
    "speedup": (
        "No run on real images has completed on the smallest device count yet.",
        (*NONE_COMPLETED, "baseline failed"),
    ),
    "throughput_by_batch_size": ("No run has completed yet.", NONE_COMPLETED),
    "throughput_by_gpus": ("No run has completed yet.", NONE_COMPLETED),
    "time_to_accuracy": ("No run on real images has completed yet.", ("nothing run",)),
    "time_with_start": ("No run on real images has completed yet.", ("nothing run",)),
    "variants": ("No configuration has completed in two variants yet.", NONE_COMPLETED),
}
"""The text that a figure shows instead of data, by the grids it applies to. A test below draws two inputs."""


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


DISTURBED = [name for name in list_figures() if name not in ("allreduce", "run_grid", "real_against_synthetic")]


def count_rings(figure) -> int:
    lines = [line for axes in figure.axes for line in axes.lines if line.get_markerfacecolor() == "none"]
    return sum(len(line.get_xdata()) for line in lines if line.get_color() == RING)


def draw_after(tmp_path, name, change):
    """Draw a figure of the complete grid whose tables of runs and losses were changed."""
    tables = make_tables(tmp_path, *GRIDS["complete"], change)
    figure = load_figure(name).draw(**{table: tables[table] for table in describe_figure(name).tables})
    plt.close(figure)
    return figure


def disturb_one(table):
    table["disturbed"] = (table["framework"] == "b") & (table["repeat"] == 1) & (table["num_gpus"] == 2)


@pytest.mark.parametrize("name", DISTURBED)
def test_a_figure_marks_what_other_work_disturbed(tmp_path, name):
    figure = draw_after(tmp_path, name, disturb_one)
    assert count_rings(figure) > 0
    assert any(RING_NOTE in axes.get_xlabel() for axes in figure.axes)
    assert count_rings(draw_after(tmp_path, name, lambda table: None)) == 0


def test_the_grid_counts_disturbed_runs_and_marks_losses_that_are_apart(tmp_path):
    def change(table):
        disturb_one(table)
        table["trajectory"], table["trajectory_limit"] = 3e-7, 1e-3
        table.loc[table["framework"] == "a", "trajectory"] = 0.02

    figure = draw_after(tmp_path, "run_grid", change)
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert "2 of 2, 1 disturbed\nloss 3e-07" in texts and "2 of 2\nlosses apart\nloss 2e-02" in texts
    assert any(text.startswith("red edge: 2 of 18 runs were disturbed") for text in texts)
    assert any(text.startswith(f"losses apart, 6 runs (e.g. a base 1 x 8): {SAYS_APART}"[:100]) for text in texts)


@pytest.mark.parametrize("name", ["throughput_by_gpus", "throughput_by_batch_size", "speedup", "variants"])
def test_a_figure_says_how_many_repeats_completed(tmp_path, name):
    def fail_one(table):
        failed = (table["variant"] == "best") & (table["repeat"] == 1) & (table["num_gpus"] == 2)
        if "status" in table:
            table.loc[failed, "status"] = "time_limit"
            table.loc[failed, ["images_per_s", "quality_last"]] = None

    figure = draw_after(tmp_path, name, fail_one)
    texts = [text.get_text() for axes in figure.axes for text in axes.texts]
    assert "1/2" in texts
    assert any(FAILED_NOTE in axes.get_xlabel() for axes in figure.axes)


@pytest.mark.parametrize("name", ["throughput_by_gpus", "speedup"])
def test_a_star_marks_curves_whose_baseline_carries_machinery(tmp_path, name):
    figure = draw_after(tmp_path, name, lambda table: None)
    texts = {text.get_text() for axes in figure.axes for text in axes.texts}
    assert {"a base *", "b base", "b best"} <= texts
    assert all(STAR_NOTE in axes.get_xlabel() for axes in figure.axes)


def test_the_speedup_of_a_loss_is_to_the_lowest_threshold_that_was_reached():
    rows = [{"threshold": threshold, "reached": threshold > 0.2} for threshold in (0.1, 0.3, 0.5)]
    table = pd.DataFrame(rows, columns=TIMES).assign(metric="test_loss", better="lower", time_to_accuracy_s=1.0)
    table[CONFIGURATION] = "x"
    assert choose_threshold(table) == 0.3
    assert choose_threshold(table.assign(reached=False)) == 0.5
    assert choose_threshold(table.assign(better="higher")) == 0.5
