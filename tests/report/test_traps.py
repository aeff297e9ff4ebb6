"""The first screen misleads about no constructed result that a hostile reader would try."""

import pytest

from helpers.answers import make_facts
from helpers.decisions import answer, answer_all, around, find, find_facts, get_doubts, priced, repeat
from helpers.messages import says
from howmanygpus.report.answer.texts import render_answer


def join(text):
    """Return a text without its line breaks."""
    return " ".join(text.split())


def test_one_run_is_compared_with_nothing():
    decision, text = answer(repeat([100]))
    assert {"one_repeat", "nothing_compared"} <= set(get_doubts(decision))
    assert "no other configuration has a result" in text and "Why no more devices" not in text


def test_values_that_are_not_known_are_no_numbers():
    """One repeat of a has no rate, another no quality; b has a quality that is no number."""
    rows = repeat(around(100), quality=0.95)
    rows[0]["images_per_s"], rows[1]["quality"] = None, None
    decision, text = answer(rows, repeat(around(50), "b", quality=float("nan")), thresholds=())
    assert decision["recommended"]["framework"] == "a", "nobody knows whether b learned anything"
    assert "nan" not in text.lower() and "none" not in text.lower()
    assert "no_quality" in get_doubts(decision) and "No accuracy is known of 1 x cpu b batch 8." in join(text)


def test_losses_that_are_all_infinite_are_no_quality():
    rows = [
        repeat(around(s), name, quality=float("inf"), quality_metric="test_loss") for s, name in ((50, "a"), (60, "b"))
    ]
    decision, text = answer(*rows, metric="test_loss", thresholds=())
    assert decision["refusal"] == "the quality at the end is no finite number for all 2 configurations with a result"
    assert "disturbed" not in text


def test_all_that_failed_is_named_with_its_reason():
    rows = [repeat([1, 1], name, status="crashed", reason=f"{name} broke") for name in "ab"]
    _, text = answer(*rows, repeat([1], "c", status="unsupported", reason="no build for cuda"))
    assert "No recommendation: no run that counts has completed." in text
    for said in ("a has no completed run: 2 crashed (a broke).", "c has no completed run: 1 unsupported (no build"):
        assert said in join(text)


def test_counts_that_run_out_of_memory_are_said_beside_what_fits():
    decision, text = answer(
        repeat([1, 1], status="out_of_memory"), *[repeat(around(100 / n), num_gpus=n) for n in (2, 4)]
    )
    assert decision["recommended"]["num_gpus"] == 4
    assert "2 runs failed (2 out of memory); not ranked: 1 x cpu a batch 8." in join(text) and "Use 4 x cpu" in text
    assert "Cheapest" not in text, "it costs the same"


def test_a_machine_that_costs_nothing_has_a_price_and_no_ratio_of_prices():
    rows = [row | {"cost": 0.0} for row in priced(repeat(around(100)))]
    others = [row | {"cost": 0.0} for row in priced(repeat(around(60), num_gpus=2))]
    decision, text = answer(rows, others)
    assert decision["recommended"]["cost"]["median"] == 0 and "0 EUR" in text
    assert all(other["times_price"] is None for other in decision["alternatives"])


def test_what_repeats_do_not_show_to_be_cheaper_is_not_the_cheapest():
    decision, _ = answer(priced(repeat([90, 100, 110])), priced(repeat([88, 99, 109], "b")))
    assert all("cheapest" not in other["roles"] for other in decision["alternatives"])
    decision, _ = answer(priced(repeat(around(100))), priced(repeat(around(60), num_gpus=2)))
    assert find(decision, "cheapest")["num_gpus"] == 1


def test_what_is_dearer_by_more_repeats_is_not_the_cheapest():
    """One repeat of b costs a little less than a on two devices, and a little more than a on one, of three repeats."""
    groups = [priced(repeat(around(100, 0.06), num_gpus=2)), priced(repeat(around(186, 0.06)))]
    _, text = answer(*groups, priced(repeat([188], "b")))
    assert "Use 2 x cpu" in text and "Cheapest" not in text


def test_alternatives_that_are_slower_take_times_as_long():
    _, text = answer(priced(repeat(around(400))), priced(repeat(around(220), num_gpus=2)))
    assert "Cheapest: 1 x cpu: takes 1.82 (1.75 to 1.89) x as long, saves 9.09 %" in join(text)


def test_a_deadline_that_nothing_meets_says_how_long_the_fastest_takes():
    hours = {1: 8, 2: 6}
    groups = [repeat(around(3600 * each), num_gpus=n, wall_s=3600.0 * each) for n, each in hours.items()]
    decision, text = answer(*groups, deadline_h=3)
    assert decision["alternatives"] == [] and decision["ties"] == []
    assert (
        "nothing is done within 3 h; the fastest, 2 x cpu a batch 8, takes 6 h with start-up and evaluation."
        in join(text)
    )
    assert not any(line.startswith(">") for line in text.splitlines()), "nothing is marked in the table"
    assert "Next, in the study: num_gpus: [1, 2, 4]" in text, "more devices may meet it"


def test_a_disturbed_repeat_of_the_baseline_does_not_make_the_speed_up_larger():
    """The baseline takes 100 s; other work made two of its repeats take 200 s."""
    base = [*repeat([100], disturbed=False), *repeat([200, 204], disturbed=True)]
    decision, _ = answer(base, repeat(around(60), num_gpus=2, disturbed=False))
    assert decision["counts"][1]["speedup"]["median"] == pytest.approx(100 / 60)
    assert "superlinear" not in get_doubts(decision) and find_facts(decision, "disturbed")["is_named"]


def test_a_speed_up_above_linear_names_the_baseline_to_doubt():
    _, text = answer(repeat(around(100)), repeat(around(26), num_gpus=2))
    said = "2 x cpu a batch 8 is more than linearly faster: doubt its baseline, 1 x cpu a batch 8."
    assert f"{said} Next, in the study: repeats: 6" in join(text)


def test_a_speed_up_that_repeats_do_not_show_is_no_reason_for_more_devices():
    """The medians say 1.6 x, and the slowest of two devices is slower than the fastest of one."""
    decision, _ = answer(repeat([70, 100, 130]), repeat([50, 62, 90], num_gpus=2))
    assert decision["recommended"]["num_gpus"] == 1 and find(decision, "next doubling")["is_tied"]


def test_single_repeats_decide_by_their_medians_and_say_so():
    decision, _ = answer(repeat([100]), repeat([55], num_gpus=2))
    assert decision["recommended"]["num_gpus"] == 2 and "one_repeat" in get_doubts(decision)


@pytest.mark.parametrize(
    ("seconds", "num_gpus", "said"), [(65, 2, "perhaps not the 1.5 x"), (69, 1, "perhaps the 1.5")]
)
def test_a_gain_near_the_rule_is_doubted_on_both_sides(seconds, num_gpus, said):
    decision, text = answer(repeat(around(100, 0.05)), repeat(around(seconds, 0.05), num_gpus=2))
    assert decision["recommended"]["num_gpus"] == num_gpus
    assert "near_the_rule" in get_doubts(decision) and said in join(text)
    clear, _ = answer(repeat(around(100)), repeat(around(52), num_gpus=2))
    assert "near_the_rule" not in get_doubts(clear)


def test_two_processors_are_two_machines_on_the_screen():
    slow = [repeat(around(100 / n), num_gpus=n, device_model="old") for n in (1, 2)]
    fast = [repeat(around(30 / n), num_gpus=n, device_model="new") for n in (1, 2)]
    decisions, text = answer_all(*slow, *fast)
    assert [each["of"] for each in decisions] == ["new", "old"]
    assert text.count("Use 2 x cpu") == 2 and "\nnew:\n" in text and "\nold:\n" in text


def test_repeats_that_two_processors_share_are_not_advised_again():
    rows = [{"device_model": name} for name in ("new", "new", "old")]
    shared = [row | model for row, model in zip(repeat(around(100)), rows, strict=True)]
    decisions, text = answer_all(shared)
    assert [each["recommended"]["num_repeats"] for each in decisions] == [2, 1]
    assert "repeats: 3" not in text and "In doubt" in text
    _, text = answer_all(shared[:2])
    assert "repeats: 3" in text


def test_each_study_has_its_own_threshold():
    easy = render_answer(make_facts({"framework": "a"}, thresholds=(0.5,)), "txt")
    hard = render_answer(make_facts({"framework": "a"}, thresholds=(0.9,)), "txt")
    assert "accuracy 0.5 in" in easy and "accuracy 0.9 in" in hard and "0.5" not in hard.split("images/s")[0]


def test_a_framework_that_crashed_in_every_repeat_is_named_before_ties_are_believed():
    decision, text = answer(repeat(around(100)), repeat([1, 1, 1], "b", status="crashed", reason="no such symbol"))
    assert find(decision, "other framework") if decision["alternatives"] else True
    assert "b has no completed run: 3 crashed (no such symbol)." in join(text)
    assert "nothing_compared" in get_doubts(decision)


def test_many_that_tie_are_counted():
    _, text = answer(*[repeat(around(100 + number / 100, 0.05), name) for number, name in enumerate("abcdefg")])
    assert "not told apart from 6 other configurations on 1 device" in join(text)


@pytest.mark.parametrize("unit", ["samples", "tokens"])
def test_a_user_s_program_is_in_its_unit_throughout(unit):
    program = {"input": "program", "unit": unit, "quality": None, "parity": "not_checked", "disturbed": True}
    decision, text = answer(repeat(around(10), **program), repeat(around(4), num_gpus=2, **program), thresholds=())
    assert decision["refusal"] and f"{unit}/s" in text
    assert not any(word in text for word in ("image", "accuracy", "parity")), text


def test_a_goal_by_loss_says_what_is_worse():
    rows = [(50, "a", 0.25), (90, "b", 0.1)]
    groups = [repeat(around(s), name, quality=q, quality_metric="test_loss") for s, name, q in rows]
    decision, _ = answer(*groups, metric="test_loss", thresholds=(0.3,))
    assert says(decision["doubts"][0]["text"], "cross-entropy 0.1", "0.01", "1 x cpu a batch 8", "0.25")


def test_counts_that_are_no_doublings_are_judged_by_as_much():
    """Three devices are 1.58 doublings, which must gain 1.9."""
    assert answer(repeat(around(100)), repeat(around(55), num_gpus=3))[0]["recommended"]["num_gpus"] == 1
    assert answer(repeat(around(100)), repeat(around(50), num_gpus=3))[0]["recommended"]["num_gpus"] == 3


def test_why_a_doubling_gains_less_is_said_to_be_unknown_if_it_is():
    _, text = answer(repeat(around(100)), repeat(around(90), num_gpus=2))
    said = "is 1.11 (1.07 to 1.16) x as fast, of the 1.5 x that it must be (worth_doubling); why is not known"
    assert f"Why no more devices: 2 x cpu a batch 8 {said}: diagnose: true adds" in join(text)
    program = {"input": "program", "unit": "samples", "quality": None, "parity": "not_checked"}
    _, text = answer(repeat(around(100), **program), repeat(around(90), num_gpus=2, **program), thresholds=())
    assert "why is not known: diagnose: true adds" in join(text), "a user's program can have control runs, too"
    _, text = answer(repeat(around(100)), repeat(around(50), num_gpus=2))
    assert "Why no more devices" not in text
