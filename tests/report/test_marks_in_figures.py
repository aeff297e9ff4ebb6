"""Figures mark runs that were disturbed, repeats that failed, and baselines with machinery."""

import matplotlib.pyplot as plt
import pandas as pd
import pytest
from matplotlib.text import Text

from helpers.figure_tables import GRIDS, make_tables, unchanged
from howmanygpus.report.columns import CONFIGURATION
from howmanygpus.report.figures import describe_figure, list_figures, load_figure
from howmanygpus.report.figures.run_grid import LOSSES_DIFFER_TEXT
from howmanygpus.report.figures.speedup import choose_threshold
from howmanygpus.report.rows import DAGGER
from howmanygpus.report.style import FAILED_NOTE, RATES_NOTE, RING, RING_NOTE, STAR_NOTE
from howmanygpus.report.tables.time_to_accuracy import COLUMNS as TIMES

OTHERS = ("allreduce", "quality_by_epoch", "run_grid", "real_against_synthetic", "timelines", "traces")
"""Figures of what other work does not disturb, and those that are tested elsewhere."""
DISTURBED = [name for name in list_figures() if name not in OTHERS]

SHOW_LEARNING = (
    *("time_to_accuracy", "time_with_start", "quality_by_epoch", "batch_sizes", "speedup", "price"),
    *("published_price", "published_quality"),
)
"""Figures in which frameworks are compared by what they learn."""


def count_rings(figure) -> int:
    lines = [line for axes in figure.axes for line in axes.lines if line.get_markerfacecolor() == "none"]
    return sum(len(line.get_xdata()) for line in lines if line.get_color() == RING)


def draw_after(name, change=unchanged):
    """Draw a figure of the complete grid whose tables of runs and losses were changed."""
    tables = make_tables(*GRIDS["complete"], change)
    figure = load_figure(name).draw(**{table: tables[table] for table in describe_figure(name).tables})
    plt.close(figure)
    return figure


def disturb_one(table):
    table["disturbed"] = (table["framework"] == "b") & (table["repeat"] == 1) & (table["num_gpus"] == 2)


@pytest.mark.parametrize("name", DISTURBED)
def test_a_figure_marks_disturbed_runs(name):
    figure = draw_after(name, disturb_one)
    assert count_rings(figure) > 0
    assert any(RING_NOTE in axes.get_xlabel() for axes in figure.axes)
    assert count_rings(draw_after(name)) == 0


def test_the_comparison_of_inputs_marks_the_input_whose_run_was_disturbed():
    runs = make_tables(*GRIDS["complete"], disturb_one)["runs"]
    others = [runs.assign(input="synthetic", disturbed=None), runs]
    figure = load_figure("real_against_synthetic").draw(runs=pd.concat(others))
    plt.close(figure)
    assert count_rings(figure) == 2, "b base and b best on two devices, on real images alone"
    assert any(RING_NOTE in axes.get_xlabel() for axes in figure.axes)


def test_the_grid_counts_disturbed_runs_and_outliers_and_marks_losses_that_are_apart():
    def change(table):
        disturb_one(table)
        table["trajectory"], table["trajectory_limit"] = 3e-7, 1e-3
        table.loc[table["framework"] == "a", "trajectory"] = 0.02
        table["is_outlier"] = table["disturbed"] & (table["variant"] == "best")

    figure = draw_after("run_grid", change)
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert "2 of 2\n1 disturbed\n1 outlier\nloss 3e-07" in texts
    (outlier,) = [text for text in texts if text.startswith("1 outlier (e.g. results/runs/b")]
    assert outlier.endswith("): the rate is far from those of the other repeats")
    assert "2 of 2\n1 disturbed\nloss 3e-07" in texts and "2 of 2\nlosses apart\nloss 2e-02" in texts
    assert any(text.startswith("red edge: 2 of 18 runs were disturbed") for text in texts)
    assert any(
        text.startswith(f"losses apart, 6 runs (e.g. a base 1 x 8): {LOSSES_DIFFER_TEXT}"[:100]) for text in texts
    )


@pytest.mark.parametrize("name", ["throughput_by_gpus", "throughput_by_batch_size", "speedup", "variants"])
def test_a_figure_says_how_many_repeats_completed(name):
    def fail_one(table):
        failed = (table["variant"] == "best") & (table["repeat"] == 1) & (table["num_gpus"] == 2)
        if "status" in table:
            table.loc[failed, "status"] = "time_limit"
            table.loc[failed, ["images_per_s", "quality_last"]] = None

    figure = draw_after(name, fail_one)
    texts = [text.get_text() for axes in figure.axes for text in axes.texts]
    assert "1/2" in texts
    assert any(FAILED_NOTE in axes.get_xlabel() for axes in figure.axes)


@pytest.mark.parametrize("name", ["throughput_by_gpus", "speedup"])
def test_a_star_marks_curves_whose_baseline_carries_machinery(name):
    figure = draw_after(name)
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


def learn_by_own_rates(table):
    is_own = (table["framework"] == "b") & (table["variant"] == "base")
    table["own_rates"] = is_own.map({True: "learning_rate 0.4", False: None})


@pytest.mark.parametrize("name", SHOW_LEARNING)
def test_a_dagger_marks_frameworks_that_learn_by_rates_of_their_own(name):
    figure = draw_after(name, learn_by_own_rates)
    texts = [text.get_text() for text in figure.findobj(Text)]
    assert any(f"b base {DAGGER}" in text for text in texts)
    assert not any(f"a base {DAGGER}" in text or f"b best {DAGGER}" in text for text in texts)
    assert any(RATES_NOTE in axes.get_xlabel() for axes in figure.axes)
    assert not any(DAGGER in text.get_text() for text in draw_after(name).findobj(Text))


def test_no_framework_is_marked_if_all_learn_by_the_same_rates():
    def change(table):
        table["own_rates"] = "learning_rate 0.4"

    assert not any(DAGGER in text.get_text() for text in draw_after("time_to_accuracy", change).findobj(Text))


@pytest.mark.parametrize("name", ["throughput_by_gpus", "speedup"])
def test_the_highest_mark_is_not_cut_by_the_edge(name):
    def be_close(table):
        if "images_per_s" in table:
            table["images_per_s"] = 1000.0 + table["num_gpus"]

    for axes in draw_after(name, be_close).axes:
        assert axes.get_ylim()[0] == 0
        assert axes.get_ylim()[1] >= 1.05 * max(max(line.get_ydata()) for line in axes.lines)
