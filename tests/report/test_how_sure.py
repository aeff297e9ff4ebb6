"""Tables, answer and figures claim no more than the repeats show: ties, intervals, outliers and drift."""

import json

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex

from helpers.answers import find_doubt, make_facts, make_runs
from helpers.messages import says
from helpers.specs import make_spec
from helpers.stored_runs import QUALITY, collect, plan_of, store_run
from howmanygpus.report.figures import load_figure
from howmanygpus.report.rows import name_series
from howmanygpus.report.style import OUTLIER, OUTLIER_NOTE
from howmanygpus.report.tables import step_times
from howmanygpus.report.tables.ceilings import COLUMNS as CEILINGS
from howmanygpus.report.tables.evaluations import COLUMNS as EVALUATIONS
from howmanygpus.report.tables.scaling import compute_scaling, list_repeats
from howmanygpus.report.tables.time_to_accuracy import compute_time_to_accuracy

SPREAD = (0.97, 1.0, 1.03)


def repeat(rate, framework="a", spread=SPREAD, **changes):
    """Make the rows of repeats whose rates and times scatter by these factors."""
    train_s = changes.pop("train_s", 2.0)
    return [
        {"framework": framework, "images_per_s": rate * factor, "train_s": train_s / factor, **changes}
        for factor in spread
    ]


def tabulate(*rows):
    table = compute_scaling(make_runs(*rows)[0], {"weak": [8]}, {})
    return table.set_index(["framework", "num_gpus"])


def test_the_table_has_intervals_of_rates_and_speedups():
    table = tabulate(*repeat(100, spread=(0.98, 1, 1.02)), *repeat(190, spread=(0.99, 1, 1.03), num_gpus=2))
    two = table.loc["a", 2]
    assert (two["images_per_s_low"], two["images_per_s_high"]) == pytest.approx((188.1, 195.7))
    assert two["speedup"] == pytest.approx(1.9)
    assert (two["speedup_low"], two["speedup_high"]) == pytest.approx((188.1 / 102, 195.7 / 98))
    assert (two["speedup_over_best_low"], two["speedup_over_best_high"]) == (two["speedup_low"], two["speedup_high"])
    one = table.loc["a", 1]
    assert (one["speedup_low"], one["speedup_high"]) == (1, 1), "it is exactly as fast as itself"


def test_one_repeat_has_no_interval_and_no_group():
    table = tabulate(*repeat(100, spread=(1,)), *repeat(50, "b", spread=(1,)))
    ends = ["images_per_s_low", "images_per_s_high", "speedup_over_best_low", "group"]
    assert table.loc["b", ends].isna().all(axis=None)
    assert tabulate(*repeat(100, spread=(1,)))["group"].tolist() == [1], "nothing to tell it from"


def test_groups_are_of_one_device_count():
    rows = [*repeat(100), *repeat(101, "b"), *repeat(150, "c")]
    more = [*repeat(200, num_gpus=2), *repeat(101, "b", num_gpus=2)]
    groups = tabulate(*rows, *more)["group"].to_dict()
    assert groups == {("a", 1): 2, ("b", 1): 2, ("c", 1): 1, ("a", 2): 1, ("b", 2): 2}


def test_rates_on_random_images_are_in_no_group_with_real_ones():
    runs = make_runs(*repeat(100), *repeat(150, "b"))[0]
    runs.loc[runs["framework"] == "b", "input"] = "synthetic"
    assert compute_scaling(runs, {"weak": [8]}, {})["group"].tolist() == [1, 1]


def decide_about(*rows):
    (decision,) = make_facts(*rows)["decisions"]
    return decision


@pytest.mark.parametrize("seed", range(3))
def test_all_whose_repeats_overlap_with_those_of_the_best_tie_with_it(seed):
    """Three repeats on each side are told apart if their ranges do not overlap."""
    generator = np.random.default_rng(seed)
    rates = {name: generator.uniform(90, 100) * generator.lognormal(0, 0.02, 3) for name in "abcdefg"}
    rows = [row for name in rates for row in repeat(1, name, spread=rates[name])]
    decision = decide_about(*rows)
    best = rates[decision["recommended"]["framework"]]
    num_tied = sum(own.max() >= best.min() for own in rates.values()) - 1
    assert 0 < num_tied < len(rates) - 1 and len(decision["ties"]) == num_tied


def test_a_clear_winner_is_named_alone():
    decision = decide_about(*repeat(100), *repeat(60, "b", train_s=3.3))
    assert decision["recommended"]["framework"] == "a" and decision["ties"] == []


def test_two_repeats_are_told_apart_beyond_the_usual_scatter():
    close = [*repeat(100, spread=(0.99, 1.01)), *repeat(104, "b", spread=(0.99, 1.01), train_s=2 / 1.04)]
    noisy = repeat(50, "c", spread=(0.9, 1.1), train_s=4.0)
    assert decide_about(*close)["ties"] == []
    assert [other["framework"] for other in decide_about(*close, *noisy)["ties"]] == ["a"]


def test_outliers_are_named_with_their_folder_and_stay_in_the_median():
    rows = repeat(100, spread=(1.0, 1.01, 0.99, 1.02, 0.7))
    rows[-1] |= {"is_outlier": True, "run_dir": "results/runs/a/5"}
    facts = make_facts(*rows)
    assert "1 run of a" in find_doubt(facts, "outliers")
    (outlier,) = facts["details"]["outliers"]
    assert (outlier["series"], outlier["repeat"], outlier["run_dir"]) == ("a", 5, "results/runs/a/5")
    assert outlier["distance"] == pytest.approx(-0.3)
    assert facts["decisions"][0]["recommended"]["num_repeats"] == 5
    assert not find_doubt(make_facts(*repeat(100)), "outliers")


def test_the_table_of_runs_flags_an_outlier(tmp_path):
    specs = [make_spec(repeat=number) for number in range(1, 6)]
    for spec, window_s in zip(specs, (1.0, 1.01, 0.99, 1.02, 1.5), strict=True):
        store_run(tmp_path, f"run{spec.repeat - 1}", spec, window_s=(window_s, window_s))
    runs = collect(plan_of(*specs), tmp_path)[0]
    assert runs["is_outlier"].tolist() == [False] * 4 + [True]
    assert len(compute_scaling(runs, {"weak": [8]}, {})) == 1 and runs["images_per_s"].notna().all()


def make_drift(change):
    """Make 4 configurations with 3 repeats, in the order of the repeats, whose rates change from run to run."""
    rows = []
    for number in range(3):
        for place, framework in enumerate("abcd"):
            minute = 10 * (4 * number + place)
            start = f"2026-11-22T{21 + minute // 60}:{minute % 60:02}:00+00:00"
            rows.append({"framework": framework, "images_per_s": 100 * change**minute, "started_at": start})
    return rows


def test_a_drift_is_a_doubt_with_its_size_and_chance():
    facts = make_facts(*make_drift(0.999))
    assert says(find_doubt(facts, "drift"), "Rates of the same configurations fell by 10.4 % in 1.83 hours")
    (test,) = [doubt["facts"]["test"] for doubt in facts["decisions"][0]["doubts"] if doubt["kind"] == "drift"]
    assert says(test, "rank correlation -", "12 runs", "p = 0.0016")
    assert not find_doubt(make_facts(*make_drift(1.0)), "drift")


def test_step_times_are_percentiles_over_all_steps_of_a_run(tmp_path):
    specs = [make_spec(repeat=number) for number in (1, 2)]
    store_run(tmp_path, "run0", specs[0], window_s=(1.0, 1.0), slowest_s=0.55)
    plan = plan_of(*specs)
    runs = collect(plan, tmp_path)[0]
    (row,) = step_times.tabulate(plan, runs, tmp_path).to_dict("records")
    assert (row["repeat"], row["num_steps"]) == (1, 20)
    assert row["step_s_p05"] == row["step_s_p50"] == pytest.approx(0.05) and row["step_s_p99"] == pytest.approx(0.55)
    assert row["step_s_max"] == pytest.approx(0.55)
    events = tmp_path / row["run_dir"] / "events.jsonl"
    lines = [json.loads(line) for line in events.read_text().splitlines()]
    events.write_text(
        "\n".join(json.dumps(line | {"steps_s": []}) if "steps_s" in line else json.dumps(line) for line in lines)
    )
    assert step_times.tabulate(plan, runs, tmp_path).empty, "a program may report several steps at once"


def draw(name, *rows):
    runs = make_runs(*rows)[0]
    tables = {"throughput_by_batch_size": {}, "drift": {}}.get(
        name, {"scaling": compute_scaling(runs, {"weak": [8]}, {})}
    )
    none = compute_time_to_accuracy(runs, pd.DataFrame(columns=list(EVALUATIONS)), QUALITY | {"thresholds": []})
    times = {"time_to_accuracy": none} if name == "speedup" else {}
    bounds = {"ceilings": pd.DataFrame(columns=list(CEILINGS))} if name == "throughput_by_gpus" else {}
    figure = load_figure(name).draw(runs=runs, **tables, **times, **bounds)
    plt.close(figure)
    return figure.axes[0]


def list_points(axes):
    """Return the heights of all small points, rising."""
    return sorted(y for points in axes.collections if len(points.get_facecolor()) for y in points.get_offsets()[:, 1])


@pytest.mark.parametrize("name", ["throughput_by_gpus", "throughput_by_batch_size"])
def test_every_repeat_is_a_point_and_outliers_are_marked(name):
    rows = repeat(100, spread=(1.0, 1.01, 0.99, 1.02, 0.7))
    axes = draw(name, *rows)
    assert list_points(axes) == pytest.approx([70, 99, 100, 101, 102])
    assert OUTLIER_NOTE not in axes.get_xlabel()
    rows[-1]["is_outlier"] = True
    axes = draw(name, *rows)
    marked = [points for points in axes.collections if to_hex(points.get_edgecolor()[0]) == OUTLIER]
    assert [points.get_offsets()[:, 1].tolist() for points in marked] == [pytest.approx([70])]
    assert OUTLIER_NOTE in axes.get_xlabel()


def test_the_figure_of_speedups_has_every_repeat_over_the_median_of_the_baseline():
    axes = draw("speedup", *repeat(100), *repeat(190, num_gpus=2))
    assert list_points(axes) == pytest.approx([0.97, 1, 1.03, 1.843, 1.9, 1.957])


def test_the_figure_of_drift_says_whether_there_is_a_trend():
    assert "\na trend: rank correlation -" in draw("drift", *make_drift(0.999)).get_xlabel()
    axes = draw("drift", *make_drift(1.0))
    assert "\nno trend" in axes.get_xlabel()


def test_a_single_repeat_is_no_second_point():
    rows = make_runs(*repeat(100, spread=(1,)), *repeat(90, "b"))[0]
    table = compute_scaling(rows, {"weak": [8]}, {})
    assert list_repeats(table.assign(series=name_series(table)), rows)["framework"].unique().tolist() == ["b"]
