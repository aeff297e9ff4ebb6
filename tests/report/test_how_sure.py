"""Tables, answer and figures claim no more than the repeats show: ties, intervals, outliers and drift."""

import json

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex

from answered import find_line, make_runs, write_answer
from howmanygpus.report.figures import load_figure
from howmanygpus.report.rows import name_series
from howmanygpus.report.style import OUTLIER, OUTLIER_NOTE
from howmanygpus.report.tables import step_times
from howmanygpus.report.tables.ceilings import COLUMNS as CEILINGS
from howmanygpus.report.tables.evaluations import COLUMNS as EVALUATIONS
from howmanygpus.report.tables.scaling import compute_scaling, list_repeats
from howmanygpus.report.tables.time_to_accuracy import compute_time_to_accuracy
from messages import says
from specs import make_spec
from stored import QUALITY, collect, plan_of, store_run

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


LEVELS_OFF = [*repeat(100), *repeat(195, num_gpus=2), *repeat(370, num_gpus=4), *repeat(378, num_gpus=8)]


def test_a_tie_names_all_and_goes_on_with_the_fewest_devices():
    line = find_line(write_answer(*LEVELS_OFF), "Highest throughput")
    assert says(line, "tie of 2", "a on 4 cpu devices", "370 images/s", "a on 8 cpu devices", "378 images/s")
    assert "a on 4 cpu devices x 8 images is on the fewest devices." in line
    assert (
        "3.70 times its own rate on 1 device (of 100 images/s; 90 % interval 3.48 to 3.93)" in line
        and "3.78" not in line
    )


@pytest.mark.parametrize("seed", range(3))
def test_all_whose_repeats_overlap_with_those_of_the_best_tie_with_it(seed):
    """Three repeats on each side are told apart if their ranges do not overlap."""
    generator = np.random.default_rng(seed)
    rates = {name: generator.uniform(90, 100) * generator.lognormal(0, 0.02, 3) for name in "abcdefg"}
    best = max(rates.values(), key=np.median)
    num_tied = sum(own.max() >= best.min() for own in rates.values())
    line = find_line(write_answer(*[row for name in rates for row in repeat(1, name, spread=rates[name])]), "Highest")
    assert 1 < num_tied < len(rates) and f"a tie of {num_tied} configurations" in line


def test_a_clear_winner_is_named_alone():
    text = write_answer(*repeat(100), *repeat(195, num_gpus=2), *repeat(370, num_gpus=4))
    line = find_line(text, "Highest throughput: a on 4 cpu devices x 8 images: 370 images/s (median of 3 repeats")
    assert "tie" not in line and "chance" not in line


def test_a_tie_is_said_as_a_tie_in_all_places():
    tied = [*repeat(100, "a", train_s=2.0), *repeat(101, "b", train_s=1.99)]
    text = write_answer(*tied, *repeat(60, "c", train_s=3), *repeat(80, "a", num_gpus=2, train_s=2.5))
    for start in ("Fastest", "Highest throughput", "Cheapest"):
        line = find_line(text, start)
        assert says(line, "tie of 2", "a on 1", "b on 1"), line
        assert "b on 1 cpu device x 8 images has the best median" in line
    assert find_line(text, "Next").startswith("- Next: c on 1"), "not a, which ties"
    assert "and the repeats do not tell it from the fastest (a tie with 1 other)." in find_line(text, "The ranking")


def test_a_tie_by_price_is_said_as_a_tie():
    def bill(framework, costs):
        own = {"framework": framework, "currency": "EUR", "device_hours": 36.0, "wall_time_s": 9.0}
        return [own | {"cost": cost} for cost in costs]

    line = find_line(write_answer(*bill("a", (4.0, 4.2, 4.4)), *bill("b", (4.1, 4.3, 4.5))), "Cheapest")
    assert says(line, "tie of 2", "a on 1", "4.2 EUR", "b on 1", "4.3 EUR") and "4.2 EUR for the whole run" in line
    line = find_line(write_answer(*bill("a", (4.0, 4.2, 4.4)), *bill("b", (5.1, 5.3, 5.5))), "Cheapest")
    assert "tie" not in line and "a on 1" in line


def test_qualities_that_repeats_do_not_tell_apart_are_equal():
    def reach(framework, qualities, train_s):
        return [{"framework": framework, "quality": quality, "train_s": train_s} for quality in qualities]

    rows = [*reach("a", (0.50, 0.52, 0.54), 9.0), *reach("b", (0.51, 0.53, 0.55), 12.0), *reach("c", [0.4] * 3, 1.0)]
    line = find_line(write_answer(*rows), "Best quality")
    assert line.startswith("- Best quality: a on 1")
    assert line.endswith("1 other configuration is not told from the best by the repeats; this one trained fastest.")


def test_the_best_framework_on_one_device_may_be_a_tie():
    rows = [*repeat(50), *repeat(200, num_gpus=2), *repeat(100, "b"), *repeat(101, "c"), *repeat(70, "d")]
    line = find_line(write_answer(*rows), "Highest throughput")
    assert (
        "1.98 times the best rate on one device (of 101 images/s; 90 % interval 1.86 to 2.10), of c (in a tie with b)."
        in line
    )


def test_more_ties_than_can_be_named_are_counted():
    line = find_line(write_answer(*[row for name in "abcdef" for row in repeat(100, name)]), "Highest throughput")
    assert says(line, "tie of 6", "and 2 more")


def test_one_repeat_leaves_the_order_to_chance():
    text = write_answer(*repeat(100, spread=(1,)), *repeat(190, spread=(1,), num_gpus=2))
    line = find_line(text, "Highest throughput: a on 2 cpu devices")
    assert "With one repeat, chance may decide." in line and "1.90 times" in line and "interval" not in line


def test_two_repeats_are_told_apart_beyond_the_usual_scatter():
    close = [*repeat(100, spread=(0.99, 1.01)), *repeat(104, "b", spread=(0.99, 1.01))]
    noisy = repeat(50, "c", spread=(0.9, 1.1))
    assert find_line(write_answer(*close), "Highest throughput: b on 1")
    assert "tie of 2" in find_line(write_answer(*close, *noisy), "Highest throughput")


@pytest.mark.parametrize("num_disturbed", [2, 3])
def test_no_speedup_is_claimed_over_a_disturbed_baseline(num_disturbed):
    base = repeat(50)
    for row in base[:num_disturbed]:
        row["disturbed"] = True
    line = find_line(write_answer(*base, *repeat(190, num_gpus=2)), "Highest throughput")
    assert says(
        line, "own rate on 1 device is not known", f"{num_disturbed} of 3 repeats", "3.80", "2 of linear scaling"
    )
    assert "That is" not in line


def test_a_speedup_that_repeats_do_not_show_is_doubted():
    """The configuration on one device has a failed repeat, so that it is no winner and in no tie."""
    rows = [*repeat(100, spread=(0.97, 1.03)), {"framework": "a", "status": "crashed"}, *repeat(104, num_gpus=2)]
    line = find_line(write_answer(*rows), "Highest throughput: a on 2 cpu devices")
    assert "That is 1.04 times its own rate on 1 device" in line
    assert "The repeats do not tell it from no speed-up." in line
    rows[-3:] = repeat(150, num_gpus=2)
    assert "no speed-up" not in find_line(write_answer(*rows), "Highest throughput: a on 2")


def test_a_baseline_with_one_disturbed_repeat_is_doubted():
    base = repeat(100)
    base[0]["disturbed"] = True
    line = find_line(write_answer(*base, *repeat(190, num_gpus=2)), "Highest throughput")
    assert "That is 1.90 times its own rate on 1 device (of 100 images/s; 90 % interval" in line
    assert "Other work disturbed 1 of 3 repeats behind its own rate on 1 device." in line


@pytest.mark.parametrize(("rate", "is_said"), [(190, False), (205, False), (260, True)])
def test_a_speedup_above_linear_is_doubted(rate, is_said):
    line = find_line(write_answer(*repeat(100), *repeat(rate, num_gpus=2)), "Highest throughput")
    assert ("above linear scaling (2)" in line) == is_said
    line = find_line(write_answer(*repeat(100, spread=(1,)), *repeat(rate, spread=(1,), num_gpus=2)), "Highest")
    assert ("above linear scaling (2)" in line) == is_said


def test_a_configuration_with_failed_repeats_is_faster_only_if_it_can_be_told():
    failed = {"framework": "a", "status": "crashed"}
    text = write_answer(*repeat(103, spread=(0.97, 1.0)), failed, *repeat(100, "b"))
    assert "a on 1 cpu device x 8 images may be faster with" in text
    assert "a on 1 cpu device x 8 images is faster with" in write_answer(*repeat(200), failed, *repeat(100, "b"))


def test_outliers_are_named_with_their_folder_and_stay_in_the_median():
    rows = repeat(100, spread=(1.0, 1.01, 0.99, 1.02, 0.7))
    rows[-1] |= {"is_outlier": True, "run_dir": "results/runs/a/5"}
    text = write_answer(*rows)
    line = find_line(text, "1 of 5 rates is an outlier")
    assert says(line, "a on 1 cpu device", "repeat 5", "-30%", "results/runs/a/5")
    assert "median of 5 repeats, 70 to 102" in find_line(text, "Highest throughput")
    assert "outlier" not in write_answer(*repeat(100))


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


def test_a_drift_is_a_sentence_with_its_size_and_chance():
    line = find_line(write_answer(*make_drift(0.999)), "Rates fell by 10.4% in the 1.8 hours of the study")
    assert says(line, "rank correlation -", "12 runs", "p = 0.0016", "figure drift")
    assert "rank correlation" not in write_answer(*make_drift(1.0))


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
