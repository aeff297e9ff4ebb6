"""The first screen leads a reader to the right machine, number of nodes, price and reason."""

import pytest

from helpers.answers import complete, make_runs
from helpers.decisions import PRICE_PER_S, answer, answer_all, around, find, find_facts, get_doubts, priced, repeat
from helpers.messages import says
from howmanygpus.report.answer.texts import WIDTH, render_answer, write_table
from howmanygpus.report.tables.time_to_accuracy import compute_time_to_accuracy

PROGRAM = {"input": "program", "unit": "tokens", "quality": None, "parity": "not_checked"}


def spread(seconds, num_nodes, billed, **changes):
    """Return rows of runs on four devices of some nodes, of which so many devices are billed."""
    hours = {"device_hours": 4.0, "billed_device_hours": 1.0 * billed}
    nodes = {"num_nodes": num_nodes, "placement": f"{num_nodes} nodes"}
    return repeat(around(seconds), num_gpus=4, **nodes, **hours, **changes)


@pytest.mark.parametrize(
    ("seconds", "billed", "num_nodes"), [(88, 16, 1), (40, 16, 4), (88, 4, 4), (99, 4, 1)], ids=str
)
def test_more_nodes_must_gain_what_their_billed_devices_must(seconds, billed, num_nodes):
    """Sixteen devices are two doublings of four, which must be 2.25 x as fast; as many must only be told apart."""
    decision, _ = answer(spread(100, 1, 4), spread(seconds, 4, billed))
    assert decision["recommended"]["num_nodes"] == num_nodes
    assert {one["num_nodes"] for one in decision["counts"]} == {1, 4}


def run_for(seconds, num_gpus, images, **changes):
    """Return rows of runs whose wall time is that of their training."""
    rows = repeat(around(seconds), num_gpus=num_gpus, images_seen=images, **changes)
    return [row | {"images_per_s": images / row["train_s"]} for row in priced(rows)]


def test_runs_of_different_length_are_not_compared_by_a_limit():
    """Each device of a study with `steps` trains as many images."""
    unequal = [run_for(100, n, 1000.0 * n) for n in (1, 2, 4)]
    for limit in ({"deadline_h": 1}, {"budget": 100.0}):
        decision, _ = answer(*unequal, thresholds=(), **limit)
        assert decision["recommended"] is None and "different length" in decision["refusal"]
        assert "edge_of_counts" not in get_doubts(decision), "no number of devices makes them comparable"
        assert [one["efficiency"] for one in decision["counts"]] == [None, pytest.approx(1), pytest.approx(1)]
        assert answer(*unequal, **limit)[0]["recommended"], "a threshold makes them comparable"
        equal = [run_for(100 / n, n, 1000.0) for n in (1, 2, 4)]
        assert answer(*equal, thresholds=(), **limit)[0]["recommended"]
    assert answer(*unequal, thresholds=())[0]["recommended"]["num_gpus"] == 4


def test_the_price_of_a_rate_is_that_of_as_much_work():
    """The run on two devices costs twice as much and trains 1.8 x the images."""
    decision, text = answer(run_for(100, 1, 1000.0), run_for(100, 2, 1800.0), thresholds=())
    one, two = (each["cost_per_million"]["median"] for each in decision["counts"])
    assert (one, two) == (pytest.approx(1e5 * PRICE_PER_S), pytest.approx(1e5 * PRICE_PER_S / 0.9))
    assert find(decision, "cheapest")["times_price"] == pytest.approx(one / two)
    assert "EUR per million images" in text and "whole run" not in text


def answer_machines(*machines, **asked):
    """Return what the facts say across machines. A machine has a name, its seconds and changes of its rows."""
    groups = [repeat(around(s), device=name, **changes) for name, s, changes in machines]
    runs, evaluations = make_runs(*(row for rows in groups for row in rows))
    quality = {"metric": "accuracy", "thresholds": list(asked.pop("thresholds", (0.9,)))}
    return complete(runs, compute_time_to_accuracy(runs, evaluations, quality))


def cost(seconds, price):
    return {"cost": price, "currency": "EUR", "device_hours": seconds / 3600, "wall_s": seconds, "wall_time_s": seconds}


def test_machines_are_compared_by_what_was_recommended():
    machines = [("fast", 100, cost(100.0, 9.0)), ("slow", 300, cost(300.0, 2.0)), ("spot", 100, cost(100.0, 2.0))]
    across = answer_machines(*machines)["across"]
    assert (across["fastest"], across["cheapest"]) == (["fast", "spot"], ["slow", "spot"])
    assert answer_machines(machines[0])["across"] is None
    dollars = [(name, s, changes | {"currency": name}) for name, s, changes in machines]
    assert answer_machines(*dollars)["across"]["cheapest"] == []


@pytest.mark.parametrize("is_priced", [True, False])
def test_a_slower_machine_is_compared_with_the_fastest_by_time_and_by_price(is_priced):
    """As a study on a CPU, a small and a large GPU asks: what does the next machine gain, and what does it cost?"""
    machines = [("cpu", 6000, 0.5), ("a100", 300, 1.0), ("h100", 100, 2.0)]
    facts = answer_machines(*((name, s, cost(float(s), price) if is_priced else {}) for name, s, price in machines))
    others = facts["across"]["others"]
    assert [(each["of"], each["times_as_long"]) for each in others] == [
        ("a100", pytest.approx(3)),
        ("cpu", pytest.approx(60)),
    ]
    prices = [pytest.approx(0.5), pytest.approx(0.25)] if is_priced else [None, None]
    assert [each["times_price"] for each in others] == prices
    sentence = " ".join(render_answer(facts, "md").split())
    assert says(sentence, "h100", "a100", "3 x", "cpu", "60 x") and ("0.25 x" in sentence) == is_priced


def test_machines_with_different_goals_are_said_not_to_be_comparable():
    facts = answer_machines(("x", 100, {"quality": 0.96}), ("y", 50, {"quality": 0.92}), thresholds=(0.9, 0.95))
    assert {of: goal["threshold"] for of, goal in facts["across"]["goals"].items()} == {"x": 0.95, "y": 0.9}
    assert facts["across"]["fastest"] == []


def test_a_price_of_one_machine_makes_the_wall_time_the_clock_of_all():
    facts = answer_machines(("x", 100, cost(150.0, 1.0)), ("y", 100, {"wall_s": 150.0, "wall_time_s": 150.0}))
    assert {each["clock"] for each in facts["decisions"]} == {"wall_s"}
    assert facts["across"]["cheapest"] == [], "that of y is not known"


def test_the_axes_of_a_program_are_not_compared_because_they_may_do_different_work():
    runs = [repeat(around(s), variant=name, **PROGRAM) for name, s in (("small", 10), ("large", 90))]
    decisions, text = answer_all(*runs, thresholds=())
    assert len(decisions) == 2 and "Fastest of these" not in text


def test_the_screen_of_two_machines_shows_the_gravest_doubt_of_each():
    groups = [
        priced(repeat(around(seconds / n), num_gpus=n, device=name))
        for name, seconds in (("x", 100), ("y", 300))
        for n in (1, 2, 4, 8)
    ]
    _, text = answer_all(*groups)
    assert text.count("In doubt:") == 2


def test_what_misses_the_target_is_named_with_its_repeats_and_rate():
    """The precision that is faster misses the target once, and is of the recommended framework."""
    rows = repeat(around(50), precision="bf16")
    rows[1]["quality"] = 0.899
    decision, _ = answer(repeat(around(100)), rows, repeat(around(200), "b", quality=0.5))
    first, second = find_facts(decision, "missed_target")["configurations"]
    assert (first["name"], first["num_missed"], first["num_repeats"]) == ("1 x cpu a bf16 batch 8", 1, 3)
    assert first["times_rate"] == pytest.approx(2) and second["name"] == "1 x cpu b fp32 batch 8"


def test_what_was_never_evaluated_has_missed_no_target():
    decision, _ = answer(repeat(around(100)), repeat(around(50), "b", quality=None))
    assert find_facts(decision, "no_quality")["configurations"] == ["1 x cpu b batch 8"]
    assert "missed_target" not in get_doubts(decision)


@pytest.mark.parametrize(("start_s", "evaluation_s"), [(60.0, 0.0), (4.0, 56.0)], ids=["start-up", "evaluation"])
def test_start_up_and_evaluation_are_told_apart(start_s, evaluation_s):
    groups = [
        [
            row | cost(start_s + evaluation_s + row["train_s"], 1.0)
            for row in repeat(around(s, 0.001), num_gpus=n, init_s=start_s - 1)
        ]
        for n, s in ((1, 10), (2, 5))
    ]
    decision, _ = answer(*groups)
    assert decision["recommended"]["num_gpus"] == 1 and decision["why"]["kind"] == "more_start"
    parts = decision["why"]["facts"]["parts"]
    assert parts["start"]["median"] == pytest.approx(start_s) and parts["train"]["median"] == pytest.approx(5)
    assert parts["evaluation"]["median"] == pytest.approx(evaluation_s)


def test_failed_attempts_in_a_price_are_said():
    billed = {"billed_device_hours": 1.0, "failed_billed_device_hours": 0.8}
    decision, _ = answer(priced(repeat(around(100), **billed)), priced(repeat(around(300), "b")))
    assert find_facts(decision, "failed_attempts")["parts"] == {"1 x cpu a batch 8": pytest.approx(0.8)}
    decision, _ = answer(priced(repeat(around(100), **billed | {"failed_billed_device_hours": 0.01})))
    assert "failed_attempts" not in get_doubts(decision)


@pytest.mark.parametrize("given", ["synthetic", "resident", "arrays"])
def test_rates_on_random_images_are_said(given):
    decision, _ = answer(repeat(around(100), input=given, quality=None), thresholds=())
    assert ("random_images" in get_doubts(decision)) == (given != "arrays")


def test_rates_alone_do_not_say_whether_larger_batches_learn_alike():
    sizes = [repeat(around(100 / n), per_device_batch_size=n, global_batch_size=n, quality=None) for n in (8, 16)]
    assert find_facts(answer(*sizes, thresholds=())[0], "rate_alone")["largest"] == 16
    strong = [
        repeat(around(100 / n), num_gpus=n, per_device_batch_size=16 // n, global_batch_size=16, quality=None)
        for n in (1, 2)
    ]
    assert "rate_alone" not in get_doubts(answer(*strong, thresholds=())[0])
    judged = [[row | {"quality": 0.95} for row in rows] for rows in sizes]
    assert "rate_alone" not in get_doubts(answer(*judged, thresholds=())[0])


def reach_second(seconds, framework="a", **changes):
    """Return rows of runs that miss the target at half of their seconds. An evaluation takes 10 s, start-up 4 s."""
    return [
        row | {"train_s": row["train_s"] / 2, "quality": 0.899, "then": 0.95, "then_wall_s": 4 + row["train_s"] + 20}
        for row in repeat(around(seconds, 0.001), framework, **changes)
    ]


def bill(rows):
    """Add the price of each second until the last evaluation."""
    for row in rows:
        wall_s = row.get("then_wall_s", row.get("wall_s"))
        row |= {"wall_time_s": wall_s, "cost": PRICE_PER_S * wall_s, "currency": "EUR", "device_hours": wall_s / 3600}
    return rows


def test_the_spacing_of_evaluations_bounds_wall_times_and_prices():
    """One framework meets the target at its first evaluation, another one at its second, after as much more."""
    first = bill([row | {"wall_s": 14 + row["train_s"]} for row in repeat(around(101, 0.001), "b")])
    second = bill(reach_second(200))
    decision, _ = answer(first, second, margin=0.1)
    assert decision["clock"] == "wall_s" and decision["recommended"]["framework"] == "b"
    other = find(decision, "other framework")
    assert other["is_tied"] and "coarse_evaluations" in get_doubts(decision)
    assert other["times_faster"]["high"] == pytest.approx((14 + 101) / (4 + 100 + 10), rel=0.01)
    slow = bill([row | {"wall_s": 14 + row["train_s"]} for row in repeat(around(60, 0.001), "b")])
    assert not find(answer(slow, second, margin=0.1)[0], "other framework")["is_tied"]


def test_what_evaluations_hide_is_not_cheaper():
    """Two devices, which are faster, need more images, or as many as far as evaluations show."""
    one = bill([row | {"wall_s": 14 + row["train_s"]} for row in repeat(around(190, 0.001))])
    two = reach_second(100, num_gpus=2)
    for row in bill(two):
        row |= {"cost": 2 * row["cost"], "device_hours": 2 * row["device_hours"]}
    decision, _ = answer(one, two, margin=0.1)
    assert decision["recommended"]["num_gpus"] == 2
    assert all("cheapest" not in each["roles"] for each in decision["alternatives"])


@pytest.mark.parametrize("statuses", [["out_of_memory"] * 3, []], ids=["failed", "not planned"])
def test_a_batch_that_more_devices_lack_is_the_reason(statuses):
    large = repeat(around(60), per_device_batch_size=32, global_batch_size=32)
    lacking = [
        row | {"status": status}
        for status in statuses
        for row in repeat([1], num_gpus=2, per_device_batch_size=32, global_batch_size=64)
    ]
    decision, _ = answer(repeat(around(100)), large, repeat(around(50), num_gpus=2), lacking)
    assert decision["recommended"]["num_gpus"] == 1 and decision["why"]["kind"] == "other_batch"


def test_a_smaller_batch_of_strong_scaling_is_no_lack():
    strong = [
        repeat(around(s), num_gpus=n, per_device_batch_size=16 // n, global_batch_size=16)
        for n, s in ((1, 100), (2, 90))
    ]
    assert answer(*strong)[0]["why"]["kind"] == "gain_unexplained"


@pytest.mark.parametrize(
    ("changes", "role"),
    [
        ({"precision": "bf16"}, "precision"),
        ({"variant": "c"}, "variant"),
        ({"input": "png"}, "input"),
        ({"input": "png", "precision": "bf16"}, "input and precision"),
    ],
)
def test_what_else_of_the_framework_is_another_one_names_the_alternative(changes, role):
    decision, _ = answer(repeat(around(100), quality=0.95), repeat(around(60), quality=0.945, **changes))
    other = find(decision, f"other {role}")
    assert other["times_faster"]["median"] == pytest.approx(0.6)
    assert other["quality_difference"] == pytest.approx(0.005)


def test_exactly_what_a_doubling_must_gain_is_enough():
    assert answer(repeat(around(0.3)), repeat(around(0.2), num_gpus=2))[0]["recommended"]["num_gpus"] == 2


def test_a_table_shows_how_many_batches_are_accumulated():
    rows = repeat(around(100), per_device_batch_size=8, global_batch_size=32)
    decision, text = answer(rows)
    assert decision["recommended"]["accumulate"] == 4
    assert next(line for line in text.splitlines() if line.startswith(">")).split()[3:6] == ["4", "x", "8"]


def size(number, num_gpus=1):
    return {"num_gpus": num_gpus, "per_device_batch_size": number, "global_batch_size": number * num_gpus}


@pytest.mark.parametrize(
    ("groups", "lacking"),
    [
        ([(100, size(8)), (90, size(32)), (50, size(8, 2))], [(32, 2)]),
        ([(100, size(8)), (75, size(8, 2)), (60, size(32, 2))], [(32, 1)]),
        ([(100, size(8)), (71, size(32, 2))], [(32, 1), (8, 2)]),
        ([(100, size(8)), (90, size(32)), (50, size(8, 2)), (55, size(32, 2))], []),
        ([(100, size(32)), (55, size(16, 2) | {"global_batch_size": 32})], []),
    ],
    ids=["one device", "two devices", "two devices that do not pay", "both", "strong scaling"],
)
def test_batches_that_one_device_count_was_not_measured_with_are_said(groups, lacking):
    decision, _ = answer(*(repeat(around(seconds), **changes) for seconds, changes in groups))
    found = find_facts(decision, "lacking_batches")["lacking"] if lacking else []
    assert [(one["size"], one["num_gpus"]) for one in found] == lacking
    assert ("lacking_batches" in get_doubts(decision)) == bool(lacking)


def test_a_batch_that_did_not_fit_is_no_lack():
    failed = repeat([1] * 3, status="out_of_memory", **size(32))
    fitting = [repeat(around(s), **changes) for s, changes in ((100, size(8)), (75, size(8, 2)), (60, size(32, 2)))]
    decision, _ = answer(*fitting, failed)
    assert decision["recommended"]["num_gpus"] == 2 and "lacking_batches" not in get_doubts(decision)


def test_long_names_stay_apart_in_the_table():
    """The frameworks' variant is the same, and inputs and precisions differ."""
    names = [(1, 100, "fp32", "png"), (2, 40, "bf16", "png"), (4, 20, "fp32", "arrays")]
    groups = [
        repeat(around(s), "horovod_tensorflow", n, variant="loader_of_keras_in_threads", precision=p, input=given)
        for n, s, p, given in names
    ]
    decision, _ = answer(*groups)
    lines = write_table(decision, "images", 3)[1:]
    shown = [line.lstrip("> ").partition("  ")[2].strip().partition("  ")[0] for line in lines]
    assert len(set(shown)) == 3 and all(len(line) <= WIDTH for line in lines)
    assert all(p in name and given in name for name, (_, _, p, given) in zip(shown, names, strict=True))


def test_parts_of_a_gpu_are_a_machine_of_their_own_whose_device_hours_are_compared_with_no_other():
    """A part takes five times as long, at a seventh of the price, if there is one."""
    machines = [("a100", 60, cost(60.0, 2.0)), ("a100_1g", 300, cost(300.0, 1.4))]
    across = answer_machines(*machines)["across"]
    assert (across["fastest"], across["cheapest"]) == (["a100"], ["a100_1g"])
    unpriced = answer_machines(*((name, s, {}) for name, s, _ in machines))["across"]
    assert unpriced["fastest"] == ["a100"] and unpriced["cheapest"] == []
