"""The decision is right about constructed results with a known truth, or refuses for the right reason."""

import re

import pandas as pd
import pytest

from helpers.answers import make_runs
from helpers.decisions import answer, answer_all, around, find, find_facts, get_doubts, priced, repeat
from helpers.messages import says
from howmanygpus.report.answer.facts import Question, decide
from howmanygpus.report.answer.texts import compare_rows, render_screen
from howmanygpus.report.tables.explanations import COLUMNS as EXPLANATIONS
from howmanygpus.report.tables.time_to_accuracy import compute_time_to_accuracy
from howmanygpus.report.words import LONGEST, is_cut, shorten


def test_a_clear_winner_is_recommended_with_its_interval():
    decision, text = answer(repeat(around(100)), repeat(around(130), "b"))
    best = decision["recommended"]
    assert (best["framework"], best["num_gpus"]) == ("a", 1)
    assert best["duration_s"] == {"median": 100, "low": 98, "high": 102}
    assert decision["ties"] == [] and find(decision, "other framework")["framework"] == "b"
    assert find(decision, "other framework")["times_faster"]["median"] == pytest.approx(100 / 130)
    assert (
        "Use 1 x cpu, a, 8 images per device: accuracy 0.9 in 1.67 min" in text
        and "3 repeats, 1.63 to 1.7 min of training" in text
    )


def test_what_repeats_cannot_tell_apart_is_a_tie_everywhere():
    decision, text = answer(repeat(around(100, 0.05)), repeat(around(101, 0.05), "b"))
    assert [other["framework"] for other in decision["ties"]] == ["b"]
    assert find(decision, "other framework")["is_tied"]
    assert "Other framework: 1 x cpu, b: not told apart by 3 repeats" in text
    assert "Not told apart" not in text, "it is named above"


def test_the_knee_is_where_a_doubling_gains_too_little():
    """The last two rates differ less than their repeats: the smaller count is recommended, and no speed is claimed."""
    curve = [repeat(around(1000 / rate, 0.03), num_gpus=n) for n, rate in ((1, 100), (2, 195), (4, 370), (8, 378))]
    decision, _ = answer(*curve)
    assert decision["recommended"]["num_gpus"] == 4
    assert find(decision, "next doubling")["is_tied"]
    assert "edge_of_counts" not in get_doubts(decision)
    assert [one["num_gpus"] for one in decision["counts"] if one["is_recommended"]] == [4]


def test_a_bound_curve_stays_at_one_device_and_one_that_has_not_bent_asks_for_more():
    bound, _ = answer(*[repeat(around(10 / gain), num_gpus=n) for n, gain in ((1, 1), (2, 1.2), (4, 1.25))])
    assert bound["recommended"]["num_gpus"] == 1
    linear, text = answer(*[repeat(around(16 / n), num_gpus=n) for n in (1, 2, 4)])
    assert linear["recommended"]["num_gpus"] == 4 and "edge_of_counts" in get_doubts(linear)
    assert "num_gpus: [1, 2, 4, 8]" in text


def test_one_repeat_is_said_and_has_no_interval():
    decision, text = answer(repeat([100]), repeat([102], "b"))
    assert decision["recommended"]["duration_s"] == {"median": 100, "low": None, "high": None}
    assert "one_repeat" in get_doubts(decision) and "chance may decide" in text
    assert decision["ties"] == [] and not find(decision, "other framework")["is_tied"], "nothing shows the scatter"
    assert "repeats: 3" in text


def test_an_alternative_with_one_repeat_is_tied_if_it_differs_by_less_than_repeats_of_others():
    for seconds, is_tie in ((101, True), (260, False)):
        decision, text = answer(repeat(around(100)), repeat([seconds], "b"))
        assert find(decision, "other framework")["is_tied"] == is_tie == bool(decision["ties"])
        assert ("not told apart by one repeat" in text) == is_tie and ("2.6 x as long by one repeat" in text) != is_tie


def test_the_cheapest_may_be_the_slowest():
    decision, _ = answer(priced(repeat(around(100))), priced(repeat(around(60), num_gpus=2)))
    assert decision["recommended"]["num_gpus"] == 2, "1.67 times as fast"
    cheapest = find(decision, "cheapest")
    assert cheapest["num_gpus"] == 1 and cheapest["times_price"] == pytest.approx(100 / 120)


def test_only_configurations_of_equal_quality_compete():
    fast, good = repeat(around(50), "b", quality=0.91), repeat(around(100), quality=0.96)
    decision, _ = answer(fast, good)
    assert decision["recommended"]["framework"] == "a"
    first = decision["doubts"][0]
    assert first["kind"] == "unequal_quality" and first["facts"]["times_faster"] == {"1 x cpu b batch 8": 2.0}
    assert says(first["text"], "accuracy 0.96", "0.01", "quality.margin", "1 x cpu b batch 8", "0.91")
    decision, _ = answer(fast, good, repeat(around(120), "c", quality=0.955))
    assert find_facts(decision, "unequal_quality")["best"] == 0.96, "the best of those that compete"
    decision, _ = answer(fast, good, margin=0.06)
    assert decision["recommended"]["framework"] == "b"
    decision, _ = answer(repeat(around(150), "b", quality=0.91), good, repeat(around(200), disturbed=True))
    assert decision["doubts"][0]["kind"] == "disturbed" and "unequal_quality" in get_doubts(decision), "it is slower"
    for seconds, is_first in ((80, False), (50, True)):
        more = repeat(around(seconds), "b", quality=0.91, num_gpus=2)
        decision, _ = answer(more, good, repeat(around(200), disturbed=True))
        assert (decision["doubts"][0]["kind"] == "unequal_quality") == is_first, "two devices must be 1.5 times as fast"
    decision, _ = answer(fast, repeat(around(100), quality=0.96, disturbed=True))
    assert decision["refusal"] and decision["doubts"][0]["kind"] == "unequal_quality", "the fastest is not taken"


def test_what_failed_is_not_recommended_and_a_framework_that_never_worked_is_named():
    failed = [*repeat([50, 50], "b"), *repeat([50], "b", status="crashed")]
    decision, text = answer(repeat(around(100)), failed, repeat(around(90), "c", status="failed_parity"))
    assert decision["recommended"]["framework"] == "a"
    assert {"failed", "absent_framework"} <= set(get_doubts(decision))
    assert "c has no completed run: 3 failed parity." in " ".join(text.split())


def test_idle_devices_of_a_node_are_paid_for():
    """A node of four devices is billed as a whole, so that one device costs four times what it uses."""
    one = priced(repeat(around(100)), devices_billed=4)
    four = priced(repeat(around(40), num_gpus=4), devices_billed=4)
    decision, _ = answer(one, four)
    assert decision["recommended"]["num_gpus"] == 4, "two doublings gain 2.5, of the 2.25 that they must"
    decision, _ = answer(one, priced(repeat(around(50), num_gpus=4), devices_billed=4))
    assert decision["recommended"]["num_gpus"] == 4, "it gains too little by doubling, but is faster and cheaper"
    decision, _ = answer(priced(repeat(around(100))), priced(repeat(around(90), num_gpus=4)))
    assert decision["recommended"]["num_gpus"] == 1, "it is faster and dearer"


@pytest.mark.parametrize(("seconds", "num_gpus"), [(27, 8), (45, 4)])
def test_doublings_go_on_from_what_is_faster_and_cheaper(seconds, num_gpus):
    """On nodes of four devices, the second node doubles what four devices cost."""
    one, four = priced(repeat(around(100)), devices_billed=4), priced(repeat(around(50), num_gpus=4), devices_billed=4)
    decision, _ = answer(one, four, priced(repeat(around(seconds), num_gpus=8), devices_billed=8))
    assert decision["recommended"]["num_gpus"] == num_gpus


def test_a_deadline_is_met_at_the_lowest_price_or_said_to_be_missed():
    """With start-up and evaluation, training takes half an hour longer."""
    hours = {1: 8, 2: 6, 4: 5}
    groups = [priced(repeat(around(3600 * each), num_gpus=n, wall_s=3600 * each + 1800)) for n, each in hours.items()]
    for deadline_h, num_gpus in ((9, 1), (8, 2), (6, 4)):
        assert answer(*groups, deadline_h=deadline_h)[0]["recommended"]["num_gpus"] == num_gpus
    assert "The cheapest within the deadline of 8 h: it takes 6.5 h, with start-up" in answer(*groups, deadline_h=8)[1]
    decision, text = answer(*groups, deadline_h=5)
    assert decision["recommended"] is None
    assert decision["refusal"] == (
        "nothing is done within 5 h; the fastest, 4 x cpu a batch 8, takes 5.5 h with start-up and evaluation"
    )
    assert "No recommendation: nothing is done within 5 h" in text


def test_a_budget_bounds_the_choice_and_needs_a_price():
    groups = [priced(repeat(around(seconds), num_gpus=n)) for n, seconds in ((1, 100), (2, 55))]
    assert answer(*groups)[0]["recommended"]["num_gpus"] == 2
    decision, text = answer(*groups, budget=0.105)
    assert decision["recommended"]["num_gpus"] == 1 and "Only what costs at most 0.105 EUR was compared." in text
    assert "nothing costs at most 0.05 EUR" in answer(*groups, budget=0.05)[0]["refusal"]
    assert "not all costs are known" in answer(repeat(around(100)), budget=1.0)[0]["refusal"]


def test_a_lower_loss_is_better():
    worse, better = (
        repeat(around(s), name, quality=q, quality_metric="test_loss")
        for s, name, q in ((50, "a", 0.2), (90, "b", 0.1))
    )
    decision, text = answer(worse, better, metric="test_loss", thresholds=(0.3,))
    assert decision["recommended"]["framework"] == "b" and "cross-entropy 0.3 in" in text
    assert (
        answer(worse, better, metric="test_loss", thresholds=(0.3,), margin=0.2)[0]["recommended"]["framework"] == "a"
    )


def test_a_program_without_quality_is_compared_by_its_rate_in_its_own_unit():
    program = {"input": "program", "unit": "samples", "quality": None, "parity": "not_checked"}
    decision, text = answer(repeat(around(10), **program), repeat(around(4), num_gpus=2, **program), thresholds=())
    assert decision["goal"]["threshold"] is None and decision["recommended"]["num_gpus"] == 2
    assert (
        "2 x cpu, a, 8 samples a step per device" in text
        and "samples/s" in text
        and "accuracy" not in text
        and "unchecked" not in get_doubts(decision)
    )


def test_a_disturbed_winner_is_not_trusted_while_others_are():
    decision, _ = answer(repeat(around(50), "b", disturbed=True), repeat(around(100), disturbed=False))
    assert decision["recommended"]["framework"] == "a" and "disturbed" in get_doubts(decision)
    some = [*repeat([50], "b", disturbed=True), *repeat([90, 90, 90], "b", disturbed=False)]
    decision, _ = answer(some, repeat(around(100), disturbed=False))
    assert decision["recommended"]["duration_s"]["median"] == 90, "disturbed repeats do not count beside others"


def test_nothing_is_recommended_if_all_runs_or_all_baselines_were_disturbed():
    decision, text = answer(repeat(around(100), disturbed=True), repeat(around(30), num_gpus=2, disturbed=False))
    assert decision["recommended"] is None and "other work on the machine disturbed all runs on 1 device" in text
    assert all(one["speedup"] is None for one in decision["counts"])
    decision, _ = answer(repeat(around(100), disturbed=True))
    assert "disturbed every run" in decision["refusal"]


def test_an_outlier_does_not_move_the_recommendation():
    decision, _ = answer(repeat([100, 101, 99, 100, 40]), repeat(around(90), "b"))
    assert decision["recommended"]["framework"] == "b"


def test_a_speed_up_above_linear_is_doubted():
    decision, _ = answer(repeat(around(100)), repeat(around(26), num_gpus=2))
    assert "superlinear" in get_doubts(decision)


def test_two_processors_are_two_machines():
    """The second processor is three times as fast, and no run on one device of it was planned."""
    rows = [*repeat(around(100)), *repeat(around(30), num_gpus=2, device_model="Intel Xeon")]
    runs, evaluations = make_runs(*rows)
    times = compute_time_to_accuracy(runs, evaluations, {"metric": "accuracy", "thresholds": [0.9]})
    first, second = decide(runs, times, Question())["decisions"]
    assert (first["of"], second["of"]) == ("AMD EPYC", "Intel Xeon")
    assert first["recommended"]["num_gpus"] == 1 and [one["num_gpus"] for one in first["counts"]] == [1]
    assert [one["num_gpus"] for one in second["counts"]] == [2] and second["counts"][0]["efficiency"] is None


def test_nothing_completed_is_said():
    decision, text = answer(repeat([1, 1], status="crashed"))
    assert decision["refusal"] == "no run that counts has completed" and "No recommendation: no run that counts" in text


def test_the_best_tier_is_not_recommended_beside_stock():
    decision, _ = answer(repeat(around(50), variant="fast"), repeat(around(100)), best_variants=frozenset({"fast"}))
    assert decision["recommended"]["variant"] == "base"
    decision, _ = answer(repeat(around(50), variant="fast"), best_variants=frozenset({"fast"}))
    assert decision["recommended"]["variant"] == "fast"


def test_the_sentence_of_the_recommended_curve_says_why_no_more_devices():
    runs, evaluations = make_runs(*repeat(around(100)), *repeat(around(90), num_gpus=2), *repeat(around(95), "b", 2))
    times = compute_time_to_accuracy(runs, evaluations, {"metric": "accuracy", "thresholds": [0.9]})
    same = {"variant": "base", "precision": "fp32", "device": "cpu", "per_device_batch_size": 8, "loss_frac": 0.5}
    rows = [
        same | {"framework": framework, "num_gpus": num_gpus, "sentence": f"{framework} {num_gpus} loses."}
        for framework, num_gpus in (("b", 2), ("a", 4), ("a", 2), ("a", 1))
    ]
    table = pd.DataFrame(rows, columns=EXPLANATIONS)
    facts = decide(runs, times, Question(), table)
    why = dict(facts["decisions"][0]["why"])
    assert why.pop("facts")["gain"]["median"] == pytest.approx(100 / 90)
    assert why == {
        "further": None,
        **{"kind": "curve", "sentence": "a 2 loses.", "curve": "a 2 loses."},
        **{"remedy": None, "run_next": None},
    }
    text = " ".join(render_screen(facts).split())
    assert says(text, "Why no more devices: 2", "1.11 x", "1.5 x", "a 2 loses.")
    assert decide(runs, times, Question(), table[:1])["decisions"][0]["why"]["kind"] == "gain_unexplained"
    ends = table.assign(not_known=["", "", "no run without exchange", ""]).replace("", None)
    assert decide(runs, times, Question(), ends)["decisions"][0]["why"]["sentence"] == "a 4 loses.", (
        "all of it is known"
    )


@pytest.mark.parametrize(("mode", "other"), [("weak", 8), ("strong", 32)])
def test_the_curve_of_the_recommended_batch_is_explained_also_if_more_is_known_of_another(mode, other):
    """Recommended are 16 images on one device. In strong scaling, two devices have 8 each."""
    size = 16 if mode == "weak" else 8
    groups = [(1, 100, 16, 16), (1, 130, other, other), (2, 90, size, 2 * size)]
    rows = [
        repeat(around(s), num_gpus=n, per_device_batch_size=own, global_batch_size=whole) for n, s, own, whole in groups
    ]
    runs, evaluations = make_runs(*[row for group in rows for row in group])
    times = compute_time_to_accuracy(runs, evaluations, {"metric": "accuracy", "thresholds": [0.9]})
    same = {"framework": "a", "variant": "base", "precision": "fp32", "device": "cpu", "num_gpus": 2, "loss_frac": 0.5}
    sizes = (other, 2 * other) if mode == "weak" else (other // 2, other)
    of_other = dict(zip(("per_device_batch_size", "global_batch_size"), sizes, strict=True), sentence="b.")
    own = {"per_device_batch_size": size, "global_batch_size": 2 * size, "sentence": "own.", "not_known": "something"}
    table = pd.DataFrame([same | each | {"scaling_mode": mode} for each in (of_other, own)], columns=EXPLANATIONS)
    why = decide(runs, times, Question(), table)["decisions"][0]["why"]
    assert (why["sentence"], why["facts"]["is_other_batch"]) == ("own.", False)
    why = decide(runs, times, Question(), table[:1])["decisions"][0]["why"]
    assert (why["sentence"], why["facts"]["is_other_batch"]) == ("b.", True)


@pytest.mark.parametrize(
    ("counts", "sizes", "kind", "line"),
    [
        ([1], [8], "one_count", "num_gpus: [1, 2]"),
        ([1, 2], [8], "one_batch", "per_device_batch_size: [8, 16]"),
        ([1, 2], [8, 16], "nothing_to_run", None),
    ],
)
def test_an_answer_without_doubts_says_what_to_run_next(counts, sizes, kind, line):
    """The smaller batch is the faster one, and a second device does not pay."""
    slow = {8: 1.0, 16: 1.2}
    groups = [
        repeat(around(slow[size] * s, 0.001), "a", n, per_device_batch_size=size, global_batch_size=size * n)
        for n, s in zip(counts, (100, 90), strict=False)
        for size in sizes
    ]
    decision, text = answer(*groups, repeat(around(300), "b"))
    assert not [doubt for doubt in decision["doubts"] if doubt["run_next"]]
    assert (decision["next"]["kind"], decision["next"]["run_next"]) == (kind, line)
    assert line is None or f"Next, in the study: {line}" in text


def test_a_doubt_with_a_command_and_a_refusal_have_nothing_else_to_run_next():
    assert answer(repeat([100]), repeat([300], "b"))[0]["next"] is None
    assert answer(repeat(around(100), status="crashed"))[0]["next"] is None


@pytest.mark.parametrize("is_recommended", [True, False])
def test_doubts_about_runs_say_whether_the_recommended_configuration_is_affected(is_recommended):
    best, other = repeat(around(100)), repeat(around(300), "b")
    (best if is_recommended else other)[0] |= {"disturbed": True, "health": "hot", "is_outlier": True}
    (best if is_recommended else other)[1] |= {"stale_because": "other data"}
    decision, _ = answer(best, other)
    for kind in ("stale", "disturbed", "health", "outliers"):
        assert find_facts(decision, kind)["is_recommended"] == is_recommended, kind
    assert find_facts(decision, "disturbed")["num_left"] == 3 - is_recommended


def test_a_refusal_shows_all_that_was_measured_and_what_was_disturbed():
    """The baseline is disturbed, so that no efficiency is over it."""
    groups = [
        repeat(around(100), disturbed=True),
        *(repeat(around(s), name, 2) for name, s in (("a", 60), ("b", 70))),
        repeat(around(40), num_gpus=4, disturbed=True),
    ]
    decision, text = answer(*groups)
    assert decision["refusal"]
    assert [(one["num_gpus"], one["efficiency"]) for one in decision["counts"]] == [(1, None), (2, None), (4, None)]
    assert len(decision["configurations"]) == 4
    assert "efficiency" not in compare_rows(decision, "images")["head"]
    assert [line.split()[-3:] for line in text.splitlines() if line.startswith("  1 ")] == [["3", "of", "3"]]


def test_no_efficiency_is_over_the_fastest_of_more_devices_because_fewer_were_disturbed():
    spread = repeat(around(98), "b", num_gpus=2, num_nodes=2, placement="2 nodes")
    decision, _ = answer(repeat(around(100), disturbed=True), repeat(around(82), num_gpus=2), spread)
    assert any(one["efficiency"] for one in decision["counts"])
    assert "efficiency" not in compare_rows(decision, "images")["head"]


def test_only_more_devices_than_the_baseline_have_an_efficiency_in_the_table():
    decision, _ = answer(*(repeat(around(s), name, n) for name, n, s in (("a", 1, 100), ("b", 1, 110), ("a", 2, 90))))
    table = compare_rows(decision, "images")
    place = table["head"].index("efficiency")
    assert [row["cells"][place] for row in table["rows"]] == ["baseline of all", "", "56 %"]


def test_what_a_program_counts_is_said_by_step_and_in_its_own_unit():
    program = {"input": "program", "unit": "tokens", "parity": "not_checked", "model": "mine"}
    groups = [
        repeat(around(s), num_gpus=n, per_device_batch_size=64, global_batch_size=64 * n, images_per_s=1000.0 * n)
        for n, s in ((1, 100), (2, 95))
    ]
    decision, text = answer(*[[row | program for row in rows] for rows in groups])
    assert "64 tokens a step per device" in text
    assert decision["why"]["kind"] == "more_images" and "tokens/s" in decision["why"]["sentence"]
    assert "image" not in decision["why"]["sentence"]


def test_a_remedy_and_what_would_tell_more_are_never_cut():
    """The sentence is far too long for a screen."""
    runs, evaluations = make_runs(*repeat(around(100)), *repeat(around(90), num_gpus=2))
    times = compute_time_to_accuracy(runs, evaluations, {"metric": "accuracy", "thresholds": [0.9]})
    row = {"framework": "a", "variant": "base", "precision": "fp32", "device": "cpu", "per_device_batch_size": 8}
    row |= {"num_gpus": 2, "sentence": "a loses 31 % " * 30, "remedy": "loader_workers: 2 instead of 1"}
    row |= {"run_next": "diagnose: true", "not_known": "no run without exchange", "loss_frac": 0.3}
    facts = decide(runs, times, Question(), pd.DataFrame([row], columns=EXPLANATIONS))
    text = render_screen(facts)
    assert "31 % a ..." in text or "a ...\n" in text or " ...\n" in text
    assert "\nRemedy to try: loader_workers: 2 instead of 1.\n" in text
    assert says(" ".join(text.split()), "Why no more devices", "in the study: diagnose: true")


def test_the_first_words_of_a_sentence_are_left_out_where_it_is_cut():
    whole = f"It loses {'very ' * ((LONGEST - 30) // 5)}much."
    assert shorten(f"{whole} The rest of this is too long for the screen.") == f"{whole} ..."
    assert shorten(f"Ends. {whole[:100]} {whole}").endswith(" very ..."), "most of the sentence is there"
    assert shorten(whole) == whole and not is_cut(whole)


def test_what_to_run_next_stays_on_one_line():
    """The names are so long that the line with the command has to be broken."""
    rows = repeat(around(100), study="a_study_with_quite_a_long_name", disturbed=True)
    _, text = answer(rows, repeat(around(110), "b", study="a_study_with_quite_a_long_name", disturbed=False))
    command = ".venv/bin/python workflow/scripts/retry_runs.py --disturbed --study a_study_with_quite_a_long_name"
    assert any(line.endswith(command) for line in text.splitlines())


def test_an_alternative_names_what_differs_from_the_recommendation():
    fast = repeat(around(60), num_gpus=2, per_device_batch_size=16)
    _, text = answer(repeat(around(100)), fast, worth_doubling=3)
    assert "Use 1 x cpu, a, 8 images per device" in text
    assert "Fastest and next doubling: 2 x cpu, 16 images per device: 1.67" in text


def test_alternatives_stay_on_a_full_screen_before_doubts():
    """A tie with another framework says more than the last of many doubts."""
    doubted = {"is_outlier": True, "stale_because": "code", "parity": "not_checked", "health": "a device was hot, " * 9}
    curve = [(1, 400), (2, 210), (4, 120), (8, 100)]
    groups = [
        priced(repeat(around(seconds, 0.05), name, n, **doubted))
        for n, seconds in curve
        for name in ("first", "second")
    ]
    decision, text = answer(*groups)
    assert find(decision, "other framework")["is_tied"] and "Other framework" in text
    assert "more doubt" in text and "Cheapest" in text


def test_precisions_and_inputs_are_named_if_they_vary():
    decision, text = answer(repeat(around(100)), repeat(around(50), precision="bf16"))
    assert "Use 1 x cpu, a bf16, 8 images" in text and decision["counts"][0]["series"] == "a bf16"
    _, text = answer(repeat(around(100), input="jpeg"), repeat(around(50), input="png"))
    assert "Use 1 x cpu, a png, 8 images" in text
    _, text = answer(repeat(around(100), input="jpeg"), repeat(around(50), input="synthetic", quality=None))
    assert "Use 1 x cpu, a, 8 images" in text, "random images are not compared"


def test_a_table_has_the_number_of_nodes_if_there_are_several():
    one, two = ({"num_nodes": nodes, "placement": f"{nodes} nodes"} for nodes in (1, 2))
    decision, text = answer(repeat(around(30), num_gpus=4, **one), repeat(around(20), num_gpus=4, **two))
    assert decision["recommended"]["num_nodes"] == 2
    assert ">  4        2      a" in text and "Use 4 x cpu on 2 nodes, a, " in text


@pytest.mark.parametrize("status", ["out_of_memory", "unsupported", "time_limit", "not_run"])
def test_a_count_on_which_nothing_can_run_is_no_baseline(status):
    decision, _ = answer(repeat([1, 1], status=status), *[repeat(around(50 * 2 / n), num_gpus=n) for n in (2, 4)])
    assert decision["recommended"]["num_gpus"] == 4
    assert [one["efficiency"] for one in decision["counts"]] == [None, pytest.approx(1)]


@pytest.mark.parametrize("status", ["crashed", "missing", "failed_parity"])
def test_a_baseline_without_a_result_is_refused_unless_a_deadline_decides(status):
    groups = [repeat([1, 1], status=status), *[repeat(around(50 * 2 / n), num_gpus=n) for n in (2, 4)]]
    decision, _ = answer(*groups)
    words = status.replace("_", " ")
    said = "nothing on 1 device, the baseline of every comparison, completed in all its repeats"
    assert decision["refusal"] == f"{said} (2 {words})"
    assert answer(*groups, deadline_h=1)[0]["recommended"]


def test_a_loss_without_thresholds_is_still_better_if_it_is_lower():
    """A rate decides between configurations of equal quality, and the lower loss is not set apart."""
    losses = ((50, "a", 2.0), (60, "b", 0.1))
    worse, better = (repeat(around(s), name, quality=q, quality_metric="test_loss") for s, name, q in losses)
    decision, _ = answer(worse, better, metric="test_loss", thresholds=())
    assert decision["recommended"]["framework"] == "b" and "no_target" not in get_doubts(decision)
    assert "None" not in answer(worse, better, metric="test_loss", thresholds=(), margin=5.0)[1]


def test_an_infinite_loss_is_set_apart_and_no_number_of_the_answer():
    worse = repeat(around(50), quality=float("inf"), quality_metric="test_loss")
    better = repeat(around(60), "b", quality=0.1, quality_metric="test_loss")
    decision, _ = answer(worse, better, metric="test_loss", thresholds=())
    assert decision["recommended"]["framework"] == "b" and "unequal_quality" in get_doubts(decision)


def test_a_threshold_that_only_diverged_runs_reached_is_no_goal():
    runs, evaluations = make_runs(*repeat(around(100), quality=0.92), *repeat(around(50), "b", quality=0.96))
    runs.loc[runs["framework"] == "b", "status"] = "diverged"
    times = compute_time_to_accuracy(runs, evaluations, {"metric": "accuracy", "thresholds": [0.9, 0.95]})
    (decision,) = decide(runs, times, Question())["decisions"]
    assert decision["goal"]["threshold"] == 0.9 and decision["recommended"]["framework"] == "a"


def test_configurations_that_miss_the_goal_are_left_out_and_said():
    decision, _ = answer(
        repeat(around(100), quality=0.96), repeat(around(30), "b", quality=0.93), thresholds=(0.9, 0.95)
    )
    assert decision["recommended"]["framework"] == "a"
    (left_out,) = find_facts(decision, "missed_target")["configurations"]
    assert (left_out["name"], left_out["num_missed"], left_out["num_repeats"]) == ("1 x cpu b batch 8", 3, 3)
    assert left_out["quality"] == 0.93 and left_out["times_rate"] == pytest.approx(100 / 30)


def test_costs_that_are_not_all_known_in_one_currency_are_not_compared():
    """Device-hours stand in their place; money is not compared with them, nor euros with dollars."""
    some = [*priced(repeat(around(100), wall_s=100.0)), *repeat(around(60), num_gpus=2, wall_s=60.0)]
    dollars = [row | {"currency": "USD"} for row in priced(repeat(around(60), num_gpus=2, wall_s=60.0))]
    several = [*priced(repeat(around(100), wall_s=100.0)), *dollars]
    for rows in (some, several):
        decision, text = answer(rows, deadline_h=1)
        assert decision["recommended"]["num_gpus"] == 1 and "EUR" not in text and "device time" in text
        assert "not all costs are known" in answer(rows, budget=1)[0]["refusal"]


def bill(hours):
    return {"wall_s": 3600.0 * hours, "wall_time_s": 3600.0 * hours, "currency": "EUR"}


def test_a_deadline_missed_within_the_budget_says_so():
    groups = [
        repeat(around(3600 * h), num_gpus=n, cost=1.0 * n * h, device_hours=1.0 * n * h, **bill(h))
        for n, h in ((1, 8), (2, 6), (4, 4))
    ]
    assert answer(*groups, deadline_h=5)[0]["recommended"]["num_gpus"] == 4
    refusal = answer(*groups, deadline_h=5, budget=13)[0]["refusal"]
    assert refusal.startswith("nothing within the budget is done within 5 h; the fastest, 2 x cpu")


def test_missing_repeats_are_to_be_run_and_not_to_be_planned():
    decision, text = answer([*repeat([100]), *repeat([1, 1], status="missing")], repeat(around(110), "b"))
    assert {"unfinished", "one_repeat"} <= set(get_doubts(decision)) and find_facts(decision, "unfinished")[
        "num_open"
    ] == 2
    assert "repeats: 3" not in text, "they are planned"
    decision, text = answer([*repeat([100], disturbed=False), *repeat([1, 1], disturbed=True)])
    assert "one_repeat" in get_doubts(decision) and "repeats: 3" not in text, "the disturbed ones are to be repeated"


def test_stale_runs_that_are_recommended_are_said():
    decision, _ = answer(repeat(around(50), "b", stale_because="code"), repeat(around(100)))
    assert decision["recommended"]["framework"] == "b" and decision["doubts"][0]["kind"] == "stale"
    assert find_facts(decision, "stale")["is_recommended"]
    decision, _ = answer(repeat(around(50), "b", status="stale"), repeat(around(100), run_dir="other"))
    stale = find_facts(decision, "stale")
    assert decision["recommended"]["framework"] == "a" and not stale["is_recommended"]
    assert not stale["is_named"], "runs without numbers are not named here"


def test_control_runs_are_not_counted_among_the_planned():
    _, text = answer(repeat(around(100)), repeat(around(50), control="no_exchange"))
    assert text.splitlines()[1] == "3 runs planned: 3 completed."


def test_other_runs_that_completed_are_not_denied():
    decision, text = answer(
        repeat([1, 1], input="jpeg", status="crashed"), repeat(around(20), input="synthetic", quality=None)
    )
    assert decision["refusal"] == "no run that counts has completed" and "3 completed" in text


def test_a_screen_has_room_for_any_study():
    """The names are as long as those of real frameworks and devices, and everything is in doubt."""
    device = {"device": "nvidia_h100_80gb_hbm3", "is_outlier": True, "stale_because": "code", "parity": "not_checked"}
    device |= {"health": "a device ran at 900 of 1980 MHz, " * 20, "run_dir": "results/runs/" + "x" * 120}
    groups = [
        priced(
            [
                row | {"images_per_s": 1e6 * num_gpus / row["train_s"]}
                for row in repeat(around(1e5 / num_gpus), framework, num_gpus, **device, **names)
            ]
        )
        for framework in ("tensorflow_multiworker", "horovod_tensorflow")
        for precision in ("fp32", "bf16")
        for num_gpus in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
        for names in [{"precision": precision, "variant": "with_channels_last", "num_nodes": max(1, num_gpus // 4)}]
    ]
    decision, text = answer(*groups)
    assert len(decision["counts"]) == 10 and "6 more rows, in answer.json" in text
    assert re.search(r"The rest is in results/tables/s/answer.txt: \d+ more doubts", text)
    assert next(line for line in text.splitlines() if line.startswith(">")).split()[1] == "512"
    devices = [[row | {"device": f"device{i}"} for row in rows] for i in range(6) for rows in groups[:3]]
    decisions, text = answer_all(*devices)
    assert len(decisions) == 6 and re.search(r"\d more recommendations", " ".join(text.split()))


def test_a_batch_at_the_edge_is_that_of_the_same_number_of_devices():
    """Under strong scaling, other numbers of devices have other batches per device."""
    strong = [repeat(around(100 / n), num_gpus=n, per_device_batch_size=64 // n) for n in (1, 2)]
    assert "edge_of_batches" not in get_doubts(answer(*strong, worth_doubling=3)[0])
    sizes = [repeat(around(100 / size), per_device_batch_size=size) for size in (8, 16)]
    assert "edge_of_batches" in get_doubts(answer(*sizes)[0])
