"""Losses that leave those of the other runs by more than rounding explains are noticed, and rounding is not."""

import pandas as pd
import pytest

from howmanygpus.report.outcomes import IDENTITY
from howmanygpus.report.trajectory import CEILING, add_differences, has_left, limit_at, summarize_trajectories
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
    """A learning rate that is wrong by 10 % changes the loss of the tenth step by about one percent."""
    wrong = [loss * (1.2 if position == step else 1) for position, loss in enumerate(USUAL)]
    runs = judge(({"framework": "a"}, USUAL), ({"framework": "b"}, wrong), ({"framework": "c"}, USUAL))
    assert has_left(runs).tolist() == [False, True, False]
    assert runs["trajectory"].iloc[1] == pytest.approx(0.2)


def test_of_two_runs_that_differ_both_are_named():
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


def test_the_limit_grows_with_the_steps_up_to_a_ceiling():
    limits = limit_at(pd.Series([1, 2, 10, 44, 10_000]), pd.Series([2.0**-24] * 5))
    assert limits.is_monotonic_increasing and limits.iloc[0] < 1e-5 and limits.iloc[-1] == CEILING
