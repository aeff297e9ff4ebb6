"""Losses that leave those of the other runs by more than rounding explains are noticed, and rounding is not."""

import pandas as pd
import pytest

from howmanygpus.report.outcomes import IDENTITY
from howmanygpus.report.trajectory import add_differences, has_left, summarize_trajectories
from specs import make_spec

STEPS = (1, 10, 44)


def judge(*runs):
    """Judge runs, each given as changes of its specification and its losses at STEPS; return them in the same order."""
    planned, rows, identities = {}, [], []
    for number, (changes, losses) in enumerate(runs):
        spec = make_spec(**changes)
        identity = {key: getattr(spec, key) for key in IDENTITY}
        planned[f"run{number}"] = {"spec": spec.to_dict(), "unsupported": ""}
        identities.append(tuple(identity.values()))
        rows += [identity | {"last_step": step, "loss": loss} for step, loss in zip(STEPS, losses, strict=True)]
    losses = add_differences(pd.DataFrame(rows), {"runs": planned}, set(identities))
    found = summarize_trajectories(losses)
    missing = {"trajectory": None, "trajectory_limit": None}
    return pd.DataFrame([found.get(identity, missing) for identity in identities])


USUAL = (2.5, 2.2, 2.0)


def near(factor):
    return tuple(loss * factor for loss in USUAL)


def test_rounding_is_no_other_work():
    runs = judge(
        ({"framework": "a"}, USUAL), ({"framework": "b"}, near(1 + 5e-7)), ({"framework": "c"}, near(1 - 5e-7))
    )
    assert not has_left(runs).any()
    assert runs["trajectory"].tolist() == pytest.approx([0, 5e-7, 5e-7], rel=1e-3)


@pytest.mark.parametrize("step", range(3))
def test_a_run_that_leaves_the_others_in_any_window_is_found(step):
    wrong = [loss * (1.2 if position == step else 1) for position, loss in enumerate(USUAL)]
    usual = [({"framework": name}, near(1 + factor * 1e-7)) for name, factor in (("a", 1), ("c", -1))]
    runs = judge(usual[0], ({"framework": "b"}, wrong), usual[1])
    assert has_left(runs).tolist() == [False, True, False]
    assert runs["trajectory"].iloc[1] == pytest.approx(0.2, rel=1e-6)


def test_of_two_runs_that_differ_both_are_named():
    """Even the losses before the first update differ."""
    runs = judge(({"framework": "a"}, USUAL), ({"framework": "b"}, near(1.01)))
    assert has_left(runs).tolist() == [True, True]


def test_only_runs_that_do_the_same_work_are_compared():
    base = {"framework": "a", "num_gpus": 2, "global_batch_size": 16}
    others = [
        {"repeat": 2, "seed": 2},
        {"batchnorm": "synchronized"},
        {"gradient_compression": "fp16"},
        {"precision": "bf16"},
        {"num_gpus": 1},
        {"optimizer": {"learning_rate": 0.2}},
    ]
    for changes in others:
        runs = judge((base, USUAL), (base | {"framework": "b", "variant": "other"} | changes, near(1.5)))
        assert runs["trajectory"].isna().all(), changes


def test_variants_and_device_counts_that_the_gate_never_saw_are_compared():
    base = {"num_gpus": 4, "global_batch_size": 32}
    for changes in ({"tier": "best"}, {"loader": "native"}, {"horovod_controller": "mpi"}, {"prefetch": 3}):
        runs = judge((base, USUAL), (base | {"variant": "other"} | changes, near(1.5)))
        assert has_left(runs).all(), changes


def test_a_run_that_is_alone_is_not_judged():
    assert judge(({"framework": "a"}, USUAL))["trajectory"].isna().all()


def far_from(loss, factor):
    return (USUAL[0], loss * factor, USUAL[2] * factor)


def test_the_limit_follows_the_network_by_its_other_runs():
    """In a deep network rounding has carried all runs apart by the second window. One that is far off is found."""
    signs = {"a": -2, "b": -1, "c": 1, "d": 2}
    deep = [({"framework": name}, far_from(2.2, 1 + 2e-3 * sign)) for name, sign in signs.items()]
    assert not has_left(judge(*deep)).any()
    assert has_left(judge(*deep, ({"framework": "e"}, far_from(2.2, 1.15)))).tolist() == [False] * 4 + [True]
    assert has_left(judge(*deep[:1], ({"framework": "e"}, far_from(2.2, 1.15)))).sum() == 0, "a pair is within CEILING"


def test_other_repeats_show_how_fast_rounding_grows_for_a_pair():
    first = [({"framework": name}, near(1 + 1e-6 * number)) for number, name in enumerate("ab")]
    second = [
        ({"framework": name, "repeat": 2, "seed": 2}, near(1 + 0.02 * number)) for number, name in enumerate("ab")
    ]
    assert has_left(judge(*first, *second)).tolist() == [False, False, True, True]


def test_copies_of_one_run_do_not_tighten_the_limit():
    """tf.distribute gives the same bits for several frameworks, which says nothing about rounding."""
    copies = [({"framework": f"copy{number}"}, USUAL) for number in range(4)]
    others = [({"framework": name}, far_from(2.2, 1 + sign * 1e-3)) for name, sign in (("b", 1), ("c", -1))]
    assert not has_left(judge(*copies, *others)).any()
