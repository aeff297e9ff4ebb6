"""The table of batch sizes has the knee, the largest batch that fits, the cost of a larger one, and the noise scale."""

import json

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from helpers.answers import find_line, make_facts
from helpers.messages import says
from helpers.specs import make_spec
from helpers.stored_runs import FIXED, plan_of, store_run
from howmanygpus.report.answer.batches import describe_batches
from howmanygpus.report.answer.texts import render_answer
from howmanygpus.report.figures import load_figure
from howmanygpus.report.outcomes import identify
from howmanygpus.report.style import mark_counts
from howmanygpus.report.tables import gradient_noise
from howmanygpus.report.tables.batch_sizes import compute_batch_sizes, mark_largest
from howmanygpus.report.tables.evaluations import COLUMNS as EVALUATIONS
from howmanygpus.report.tables.helpers.sources import read_searches
from howmanygpus.report.tables.runs import COLUMNS as RUNS
from howmanygpus.report.tables.time_to_accuracy import compute_time_to_accuracy

RATES = {8: (100, 102), 16: (180, 184), 32: (191, 196), 64: (200, 200)}
EPOCHS = {8: 2, 16: 2, 32: 3, 64: None}


def tabulate(rates=RATES, epochs=EPOCHS, out_of_memory=(), noise=(), thresholds=(0.9,)):
    """Make the table. rates: of the repeats; epochs: to the target, None if it is never reached; by batch size."""
    runs, evaluations, measured = [], [], []
    for size in (*rates, *out_of_memory):
        for repeat, rate in enumerate(rates.get(size, (None,)), start=1):
            identity = identify(FIXED, vars(make_spec(global_batch_size=size, repeat=repeat)))
            status = "out_of_memory" if size in out_of_memory else "completed"
            runs.append(identity | {"status": status, "images_per_s": rate, "init_s": 1.0, "compile_s": 1.0})
            runs[-1]["train_s"] = 20.0 * repeat
            if epoch := epochs.get(size):
                seen = {"epoch": epoch, "images_seen": epoch * 1000, "train_s": epoch * 1000 / rate, "wall_s": 60.0}
                evaluations.append(identity | seen | {"quality": 0.95})
            event = identity | {"step": 1, "elapsed_s": 0.9}
            measured += [event | {"gradient_squared": g, "variance_trace": s} for g, s in noise]
    runs = pd.DataFrame(runs, columns=list(RUNS))
    evaluations = pd.DataFrame(evaluations, columns=list(EVALUATIONS))
    times = compute_time_to_accuracy(runs, evaluations, {"metric": "accuracy", "thresholds": list(thresholds)})
    return compute_batch_sizes(runs, times, pd.DataFrame(measured, columns=list(gradient_noise.COLUMNS)))


def draw_batches(batch_sizes):
    """Draw the figure of frameworks that all learn by the same rates."""
    return load_figure("batch_sizes").draw(batch_sizes=batch_sizes, runs=pd.DataFrame(columns=list(RUNS)))


def find_knee(rates):
    table = tabulate(rates)
    knees = table.loc[table["is_knee"].astype(bool), "global_batch_size"].tolist()
    return (*knees, *(None if pd.isna(x) else x for x in table.iloc[0][["knee_lowest", "knee_highest"]]))


def test_the_knee_is_the_smallest_batch_within_5_percent_and_its_range_follows_the_spread():
    assert find_knee(RATES) == (32, 32, 32)
    assert find_knee(RATES | {16: (180, 196)}) == (32, 16, 32), "one repeat of 16 is within 5 % of the best"
    assert find_knee(RATES | {32: (180, 205)}) == (32, 32, 64), "one repeat of 32 is not"
    assert find_knee({8: (100, 120), 16: (90, 130)}) == (8, 8, None), "no batch surely is"
    assert find_knee({8: (100,), 16: (200,)}) == (16, 16), "larger ones than 16 were not measured"
    assert find_knee({8: (100, 102)}) == (None, None), "one batch has no knee"


def test_the_largest_that_fits_is_known_only_if_a_larger_one_was_out_of_memory():
    assert not tabulate()["is_largest_that_fits"].any()
    table = tabulate(out_of_memory=(128,))
    assert table.loc[table["is_largest_that_fits"], "per_device_batch_size"].tolist() == [64]
    last = table.iloc[-1]
    assert last["num_out_of_memory"] == 1 and pd.isna(last["rate_of_best"])


def test_epochs_and_images_to_the_hardest_target_that_was_reached():
    table = tabulate(thresholds=(0.5, 0.9, 0.99)).set_index("global_batch_size")
    assert (table["target"] == 0.9).all()
    assert table["epochs_to_target_median"].tolist()[:3] == [2, 2, 3]
    assert table["images_to_target_max"].tolist()[:3] == [2000, 2000, 3000]
    never = table.loc[64]
    assert (never["num_judged"], never["num_reached"]) == (2, 0) and pd.isna(never["images_to_target_median"])


def test_the_noise_scale_is_a_ratio_of_means_and_empty_without_a_gradient():
    scale = tabulate(noise=[(1.0, 30.0), (3.0, 50.0)])["noise_scale"]
    assert scale.tolist() == pytest.approx([20.0] * 4), "the mean of the ratios would be 23.3"
    lost = tabulate(noise=[(1.0, 30.0), (-3.0, 50.0)])
    assert lost["noise_scale"].isna().all() and (lost["num_noise_measurements"] == 4).all()


def test_the_answer_names_gain_and_cost_of_the_next_batch_size():
    found = describe_batches(tabulate(noise=[(1.0, 30.0)]), None)
    (knee,) = found["knees"]
    assert (knee["series"], knee["is_knee"], knee["global_batch_size"]) == ("pytorch_ddp", True, 32)
    assert (knee["lowest"], knee["highest"], knee["num_nodes"]) == (32, 32, None)
    doubling = found["doubling"]
    assert doubling["global_batch_size"] == [32, 64] and doubling["times_rate"] == pytest.approx(200 / 193.5)
    assert doubling["times_rate_min"] == pytest.approx(200 / 196)
    assert doubling["target"] == {
        **{"metric": "accuracy", "threshold": 0.9, "num_judged": 2, "num_reached": 0},
        **dict.fromkeys(("times_images", "times_time", "epochs")),
    }
    assert found["noise"]["lowest"] == found["noise"]["highest"] == 30
    assert found["noise"]["time_frac"] == pytest.approx(1.8 / 60), "1.8 of 60 s"
    target = describe_batches(tabulate(epochs=EPOCHS | {64: 6}), None)["doubling"]["target"]
    assert (target["times_images"], target["epochs"]) == (2, [3, 6]) and target["times_time"] == pytest.approx(
        1.93, abs=0.01
    )


def test_a_curve_without_a_knee_has_its_largest_batch_and_one_batch_has_no_curve():
    found = describe_batches(tabulate({8: (100,), 16: (200,)}), None)
    (knee,) = found["knees"]
    assert (knee["is_knee"], knee["global_batch_size"], knee["lowest"]) == (False, 16, None)
    assert found["doubling"]["global_batch_size"] == [8, 16] and found["doubling"]["times_rate_min"] is None
    nothing = {"knees": [], "doubling": None, "noise": None, "largest": []}
    assert describe_batches(tabulate({8: (100,)}), None) == nothing


def test_the_sentences_on_batches_have_their_numbers():
    facts = make_facts({"framework": "a"}, batch_sizes=tabulate(epochs=EPOCHS | {64: 6}, noise=[(1.0, 30.0)]))
    text = render_answer(facts, "md")
    assert find_line(text, "Knee").endswith("of the best rate: pytorch_ddp on 1 x cpu: 32.")
    line = find_line(text, "pytorch_ddp on 1 x cpu, 64 instead of 32 images a batch: rate +3.36 % (+2.04 % to")
    assert "to accuracy 0.9, images +100 % (3 to 6 epochs) and training time +9" in line
    assert says(find_line(text, "Gradient noise scale: 30 images"), "Measuring it took up to 3 % of the training time")
    facts = make_facts({"framework": "a"}, batch_sizes=tabulate({8: (100,), 16: (200,)}))
    text = render_answer(facts, "md")
    assert find_line(text, "No knee").endswith("pytorch_ddp on 1 x cpu (16 images).") and "- Knee" not in text


def test_the_figure_has_squares_bars_crosses_and_the_noise_scale():
    figure = draw_batches(tabulate(out_of_memory=(128,), noise=[(1.0, 30.0)]))
    rates, epochs, images = figure.axes
    plt.close(figure)

    def places(axes, marker):
        return [x for line in axes.lines if line.get_marker() == marker for x in line.get_xdata()]

    assert places(rates, "s") == [32] and 64 in places(rates, "|")
    assert not places(epochs, "s") and not places(images, "s"), "the knee is one of the rate"
    assert places(epochs, "x") == places(images, "x") == [64], (
        "a batch that does not fit is no batch that fails to learn"
    )
    assert any(list(line.get_xdata()) == [pytest.approx(30.0)] * 2 for line in images.lines)
    assert any("0/2  pytorch_ddp" in text.get_text() for text in epochs.texts)
    assert all(note in images.get_xlabel() for note in ("knee", "largest batch", "noise", "repeats"))


@pytest.mark.parametrize(
    ("largest", "words"), [(32, ("rate pytorch_ddp 1.9 x", "to the target pytorch_ddp 1.5 x")), (64, ("rate",))]
)
def test_the_headline_has_gain_and_cost_of_the_largest_batch(largest, words):
    figure = draw_batches(tabulate({size: rates for size, rates in RATES.items() if size <= largest}))
    plt.close(figure)
    headline = " ".join(figure.get_suptitle().split())
    assert f"batches of 8 to {largest}" in headline and all(each in headline for each in words)
    assert ("target" in headline) == (largest == 32), "the largest batch never reached it"


def test_the_largest_batch_is_no_knee_in_the_figure_as_in_the_answer():
    figure = draw_batches(tabulate({8: (100,), 16: (200,)}))
    plt.close(figure)
    assert not any(line.get_marker() == "s" and len(line.get_xdata()) for axes in figure.axes for line in axes.lines)
    assert not any("knee" in axes.get_xlabel() for axes in figure.axes)


def test_the_figure_marks_the_batch_of_each_limit_and_numbers_that_are_near_do_not_touch():
    table = tabulate(rates=RATES | {88: (210, 210)}, epochs={})
    largest = [{"framework": "pytorch_ddp", "variant": "base", "precision": "fp32", "device": "cpu", "number": 88}]

    def draw(limit):
        figure = draw_batches(mark_largest(table, [largest[0] | {"limit": limit}]))
        plt.close(figure)
        axes = figure.axes[0]
        found = {line.get_marker(): list(line.get_xdata()) for line in axes.lines if len(line.get_xdata()) == 1}
        return axes, {marker: found.get(marker) for marker in "|D"}, figure.axes[-1].get_xlabel()

    axes, marks, notes = draw("memory")
    assert marks == {"|": [88], "D": None} and "largest batch that fits" in notes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["8", "16", "32", "64", "88"]
    axes, marks, notes = draw("data_set")
    assert marks == {"|": None, "D": [88]} and "largest batch of the data set" in notes
    mark_counts(axes, [8, 60, 64, 1000, 1024])
    assert [label.get_text() for label in axes.get_xticklabels()] == ["8", "", "64", "", "1024"]
    mark_counts(axes, [1, 2, 4, 8, 12, 16])
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "2", "4", "8", "12", "16"]


def test_measurements_of_a_run_are_read_and_estimated(tmp_path):
    spec = make_spec(gradient_noise_every_epochs=1)
    store_run(tmp_path, "run0", spec)
    event = {"event": "gradient_noise", "epoch": 1, "step": 10, "images_small": 2, "images_big": 8, "elapsed_s": 0.1}
    events = tmp_path / "results" / "runs" / "run0" / "events.jsonl"
    # |G|^2 = 1 and S = 8: a batch of 2 images has 1 + 8 / 2, and one of 8 has 1 + 8 / 8.
    norms = [
        {"squared_norm_small": 5.0, "squared_norm_big": 2.0},
        {"squared_norm_small": None, "squared_norm_big": 2.0},
    ]
    lines = [pd.Series(event | each).to_json() for each in norms]
    events.write_text("\n".join([events.read_text(), *lines]))
    (row,) = gradient_noise.tabulate(plan_of(spec), tmp_path).to_dict("records")
    assert (row["gradient_squared"], row["variance_trace"]) == (pytest.approx(1.0), pytest.approx(8.0))
    assert np.isclose(row["elapsed_s"], 0.1)


def test_a_search_that_was_done_again_counts_and_not_its_earlier_failure(tmp_path):
    for name, largest in (("first.json", 64), ("first.failed.json", None), ("second.failed.json", None)):
        (tmp_path / name).write_text(json.dumps({"largest": largest}))
    for paths in (sorted(tmp_path.iterdir()), sorted(tmp_path.iterdir(), reverse=True)):
        assert read_searches(paths) == {"first": {"largest": 64}, "second": {"largest": None}}
