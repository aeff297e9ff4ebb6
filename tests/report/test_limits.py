"""The answer says why it has no more devices, and that reason is the one that decided."""

import pandas as pd
import pytest

from helpers.answers import make_facts, make_runs
from helpers.decisions import answer, around, find, get_doubts, priced, repeat
from howmanygpus.report.answer.facts import Question, decide
from howmanygpus.report.answer.texts import render_answer, render_screen
from howmanygpus.report.columns import LINE
from howmanygpus.report.tables.explanations import COLUMNS as EXPLANATIONS
from howmanygpus.report.tables.time_to_accuracy import compute_time_to_accuracy


def why(*groups, **asked):
    decision, text = answer(*groups, **asked)
    return decision["why"]["kind"], " ".join(text.split())


def test_a_budget_that_more_devices_exceed_is_the_reason():
    kind, text = why(priced(repeat(around(100))), priced(repeat(around(53), num_gpus=2)), budget=0.102)
    assert kind == "more_than_the_budget"
    assert "no more devices: 2 x cpu a batch 8 is 1.89 (1.81 to 1.96) x as fast, but costs 0.106 EUR, which is" in text
    assert (
        "Fastest and next doubling: 2 x cpu: 1.89 (1.81 to 1.96) x as fast, at 1.06 x the cost; over the budget."
        in text
    )


def test_a_deadline_that_is_kept_without_more_devices_is_the_reason():
    groups = [repeat(around(seconds), num_gpus=n, wall_s=seconds) for n, seconds in ((1, 100), (2, 60))]
    kind, text = why(*groups, deadline_h=1)
    assert kind == "dearer" and "2 x cpu a batch 8 takes 1.2 x the price, and the deadline is kept without it." in text


def test_a_price_of_zero_and_more_devices_that_miss_the_deadline_need_no_reason():
    free = [row | {"cost": 0.0} for row in priced(repeat(around(100)))]
    dear = [row | {"cost": 0.0} for row in priced(repeat(around(60), num_gpus=2))]
    assert answer(free, dear, deadline_h=1)[0]["why"] is None
    slower = repeat(around(40), num_gpus=2, wall_s=7200.0)
    assert answer(repeat(around(100)), slower, deadline_h=1)[0]["why"] is None


def test_a_larger_global_batch_that_needs_more_images_is_the_reason():
    """The rate doubles, but so does the number of images to the target."""
    kind, text = why(repeat(around(100), images_per_s=10.0), repeat(around(95), num_gpus=2, images_per_s=20.0))
    assert kind == "more_images"
    assert (
        "trains 2 x the images/s, but needs 1.9 x the images to the target (global batches of 16 instead of 8): 1.05"
        in text
    )


@pytest.mark.parametrize(
    ("changes", "kind", "words"),
    [
        ({"quality": 0.85}, "more_miss_the_target", "on 2 devices, no configuration reached accuracy 0.9 in all"),
        ({"status": "crashed"}, "more_incomplete", "nothing on 2 devices completed in all its repeats"),
        ({"quality": 0.97, "disturbed": True}, "more_disturbed", "other work disturbed all runs on 2 devices"),
        ({"quality": 0.91}, "more_unequal", "on 2 devices, the accuracy at the end is worse"),
    ],
)
def test_more_devices_without_a_result_that_counts_are_the_reason(changes, kind, words):
    found, text = why(repeat(around(100), quality=0.97), repeat(around(50), num_gpus=2, **changes))
    assert found == kind and words in text


def test_a_gain_that_repeats_do_not_tell_is_the_reason():
    kind, text = why(repeat(around(100)), repeat([55, 56, 160], num_gpus=2))
    assert kind == "gain_not_told" and "which the repeats do not tell from no gain" in text


def test_a_gain_that_is_too_small_is_explained_by_the_curve_of_the_same_input_if_it_loses_something():
    runs, evaluations = make_runs(*repeat(around(100)), *repeat(around(90), num_gpus=2))
    times = compute_time_to_accuracy(runs, evaluations, {"metric": "accuracy", "thresholds": [0.9]})
    row = {"framework": "a", "variant": "base", "precision": "fp32", "device": "cpu", "num_gpus": 2}
    row |= {"per_device_batch_size": 8, "input": runs["input"].iloc[0], "sentence": "It loses."}
    row |= {"loss_frac": 0.4, "loss_frac_low": 0.3}

    def explain(**changes):
        table = pd.DataFrame([row | changes], columns=EXPLANATIONS)
        why = decide(runs, times, Question(), table)["decisions"][0]["why"]
        return {name: each for name, each in why.items() if why["kind"] != "curve" or name != "facts"}

    told = {"kind": "curve", "sentence": "It loses.", "curve": "It loses.", "further": None}
    assert explain() == told | {"remedy": None, "run_next": None}
    for changes in ({"input": "synthetic"}, {"loss_frac": -0.2}, {"loss_frac": 0.0}, {"loss_frac_low": -0.1}):
        found = explain(**changes)
        assert found["kind"] == "gain_unexplained", changes
        assert "1.11" in found["sentence"] and "diagnose: true" in found["sentence"]


def test_the_curve_is_explained_below_also_if_something_else_decided():
    row = {"framework": "a", "variant": "base", "precision": "fp32", "device": "cpu", "num_gpus": 2}
    row |= {"per_device_batch_size": 8, "sentence": "It loses.", "loss_frac": 0.4, "loss_frac_low": 0.3}
    names = {name: "x" for name in LINE if name not in row} | {"input": "arrays", "placement": "x"}
    table = pd.DataFrame([row | names], columns=EXPLANATIONS)
    facts = make_facts(*repeat(around(100)), *repeat(around(50), num_gpus=2, quality=0.85), explanations=table)
    assert facts["decisions"][0]["why"]["kind"] == "more_miss_the_target"
    text = render_answer(facts, "txt")
    assert "It loses." in text[text.index("Why the curves bend") :] and "It loses." not in render_screen(facts)


def test_a_sentence_that_is_cut_on_the_screen_stands_below_once():
    row = {"framework": "a", "variant": "base", "precision": "fp32", "device": "cpu", "num_gpus": 2}
    row |= {"per_device_batch_size": 8, "sentence": f"It loses {'a lot ' * 60}here.", "remedy": "fewer devices"}
    names = {name: "x" for name in LINE if name not in row} | {"input": "arrays", "placement": "x"}
    table = pd.DataFrame([row | names | {"loss_frac": 0.4, "loss_frac_low": 0.3}], columns=EXPLANATIONS)
    facts = make_facts(*repeat(around(100)), *repeat(around(90), num_gpus=2), explanations=table)
    assert facts["decisions"][0]["why"]["kind"] == "curve"
    text = " ".join(render_answer(facts, "txt").split())
    assert text.count("lot here.") == 1 and "lot here. Remedy to try: fewer devices." in text


def test_without_more_devices_there_is_no_reason():
    assert answer(repeat(around(100)), repeat(around(50), num_gpus=2))[0]["why"] is None


def test_what_failed_the_gate_is_left_out_and_said():
    failed = repeat(around(60), "b", parity="failed")
    decision, text = answer(repeat(around(100), parity="passed"), failed)
    assert decision["recommended"]["framework"] == "a" and decision["alternatives"] == []
    assert "Left out, because the parity gate failed, which shows other work: b." in text
    decision, text = answer(failed)
    assert decision["recommended"]["framework"] == "b" and "All that completed failed the parity gate" in text


def test_what_failed_the_gate_in_one_precision_is_left_out_and_said():
    failed = repeat(around(50), precision="fp16", parity="failed")
    decision, text = answer(repeat(around(100), parity="passed"), failed)
    assert decision["recommended"]["precision"] == "fp32"
    assert "Left out, because the parity gate failed, which shows other work: a fp16." in text


def test_what_failed_the_gate_and_was_not_trained_is_a_run_without_a_result():
    """With `parity: required` it has this status, and its device count no baseline."""
    refused = {"status": "failed_parity", "parity": "failed"}
    decision, _ = answer(repeat(around(100)), repeat([1, 1], "b", **refused))
    assert "absent_framework" in get_doubts(decision) and "unproven" not in get_doubts(decision)
    alone, _ = answer(repeat([1, 1], **refused), *[repeat(around(50 * 2 / n), num_gpus=n) for n in (2, 4)])
    assert alone["refusal"].endswith("(2 failed parity)")


@pytest.mark.parametrize(
    ("status", "kind"), [("failed_parity", "failed"), ("suspended", "failed"), ("disk_full", "unfinished")]
)
def test_runs_that_another_call_may_not_do_are_said(status, kind):
    decision, _ = answer(repeat(around(100), "b"), repeat([1, 1], "b", num_gpus=2, status=status))
    assert decision["recommended"]["num_gpus"] == 1 and kind in get_doubts(decision)


def test_one_repeat_is_enough_for_what_is_faster_and_cheaper_and_is_said():
    groups = [priced(repeat([seconds], num_gpus=n), 4) for n, seconds in ((1, 100), (4, 50))]
    decision, _ = answer(*groups)
    assert decision["recommended"]["num_gpus"] == 4
    _, text = answer(repeat([100]), repeat([1000], "b"))
    assert "Other framework: 1 x cpu, b: takes 10 x as long by one repeat" in text


def test_the_cheaper_of_two_that_are_not_told_apart_is_taken():
    decision, _ = answer(priced(repeat(around(100)), 3), priced(repeat(around(101), "b"), 1))
    assert decision["recommended"]["framework"] == "b"
    assert [one["framework"] for one in decision["counts"] if one["is_recommended"]] == ["b"]


def test_a_gain_over_another_framework_is_said():
    groups = [repeat([1] * 3, status="crashed"), repeat(around(115), "b"), repeat(around(65), num_gpus=2)]
    decision, text = answer(*groups, repeat(around(90), "b", num_gpus=2))
    assert decision["recommended"]["framework"] == "a" and "other_baseline" in get_doubts(decision)
    assert "a has no result of its own on 1 device that counts" in text
    whole, _ = answer(repeat(around(120)), *groups[1:])
    assert "other_baseline" not in get_doubts(whole)


@pytest.mark.parametrize("changes", [{"precision": "bf16"}, {"variant": "c"}, {"input": "png"}], ids=str)
@pytest.mark.parametrize("is_planned", [True, False])
def test_a_gain_over_another_series_of_the_framework_is_not_blamed_on_its_baseline(changes, is_planned):
    crashed = repeat([1] * 3, status="crashed", **changes) if is_planned else []
    decision, _ = answer(repeat(around(100)), crashed, repeat(around(40), num_gpus=2, **changes))
    assert "other_baseline" in get_doubts(decision) and "superlinear" not in get_doubts(decision)
    own, _ = answer(repeat(around(100)), repeat(around(101), **changes), repeat(around(60), num_gpus=2, **changes))
    assert "other_baseline" not in get_doubts(own)


def test_a_worse_quality_that_scatter_hides_is_said():
    rows = [
        repeat(around(seconds), name, quality=quality) for name, seconds, quality in (("a", 100, 0.95), ("b", 60, 0.85))
    ]
    noisy = [row for quality in (0.95, 0.3, 0.94) for row in repeat([200], "c", quality=quality)]
    decision, _ = answer(*rows, noisy, thresholds=())
    assert decision["recommended"]["framework"] == "b" and "unsure_quality" in get_doubts(decision)
    assert "unsure_quality" not in get_doubts(answer(*rows, thresholds=())[0])


def test_a_disturbed_alternative_that_is_named_is_said():
    """It is neither recommended nor the fastest of its device count."""
    other = repeat(around(130), "b")
    other[0]["disturbed"] = True
    _, text = answer(repeat(around(100), disturbed=False), other)
    assert "none of the recommended configuration, but of others named here" in " ".join(text.split())


def test_repeats_beyond_a_deadline_or_a_budget_are_said():
    rows = repeat([4.8 * 3600, 4.95 * 3600, 6.5 * 3600])
    for row in rows:
        row["wall_s"] = row["train_s"]
    decision, text = answer(rows, deadline_h=5)
    assert (
        decision["recommended"] and "1 of 3 repeats of the recommended configuration did not keep the deadline." in text
    )
    assert "beyond_the_limit" in get_doubts(answer(priced(repeat([90, 100, 120])), budget=0.11)[0])
    assert "beyond_the_limit" not in get_doubts(answer(rows, deadline_h=7)[0])


def test_a_limit_that_is_nearly_kept_is_written_with_more_digits():
    refusal = answer(repeat(around(18010, 0.0), wall_s=18010), deadline_h=5)[0]["refusal"]
    assert "nothing is done within 5 h; the fastest, 1 x cpu a batch 8, takes 5.0028 h" in refusal


def test_a_target_that_is_reached_at_once_is_said():
    decision, text = answer(repeat([1, 1], train_s=0.0), repeat(around(100), "b"))
    assert decision["recommended"]["framework"] == "b" and "reached_at_once" in get_doubts(decision)
    assert "takes no training time: a." in " ".join(text.split())


def test_a_deadline_needs_no_baseline():
    rows = priced(repeat(around(100), disturbed=True)), priced(repeat(around(60), num_gpus=2, disturbed=False))
    assert answer(*rows)[0]["recommended"] is None
    assert answer(*rows, deadline_h=1)[0]["recommended"]["num_gpus"] == 2


def test_an_alternative_without_a_wall_time_can_be_written():
    rows = repeat(around(100), wall_time_s=10.0), repeat(around(60), "b", wall_time_s=None)
    _, text = answer(*rows, thresholds=(), deadline_h=1)
    assert "b" in find(answer(*rows, thresholds=(), deadline_h=1)[0], "other framework")["framework"]
    assert "misses the deadline" not in text
