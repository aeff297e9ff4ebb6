"""Losses that leave those of the other runs by more than rounding explains are noticed, and rounding is not."""

import pandas as pd
import pytest

from helpers.specs import make_spec
from helpers.stored_runs import FIXED
from howmanygpus.report.outcomes import identify
from howmanygpus.report.trajectory import add_differences, has_unexplained_losses, summarize_trajectories

STEPS = (1, 10, 44)
MEASURED_STEPS = (1, 6, 10)
SMALL_CNN = {
    "chainer_mn": (2.96147871, 2.43759627, 2.30544975),
    "jax_sharding": (2.96147871, 2.43759632, 2.30544966),
    "keras_mirrored": (2.96147871, 2.43759623, 2.30544925),
    "tensorflow_mirrored": (2.96147871, 2.43759632, 2.30544972),
}
RESNET44 = {
    "chainer_mn": (5.54609108, 9.52192354, 13.70744312),
    "keras_mirrored": (5.54609299, 9.53775902, 13.72067308),
    "mxnet_gluon": (5.54609061, 9.53509604, 13.48715438),
}
"""Losses of two networks on two CPU devices, in windows that end with MEASURED_STEPS."""
INCEPTION_STEPS = (1, 4, 12, 20, 40)
INCEPTION = {
    "keras_mirrored": (2.84443, 2.6527900, 2.3881000, 2.55373, 2.4632),
    "tensorflow_mirrored": (2.84443, 2.6527901, 2.3881001, 2.55373, 2.4632),
    "pytorch_ddp": (2.84443, 2.66049, 2.36411, 2.56944, 2.50597),
}
"""Losses of a short inception_v3 on one CPU device; all three passed the parity gate."""
FAMILIES = {"keras_mirrored": "keras", "tensorflow_mirrored": "tensorflow"}
"""Families of frameworks. Any other is a family of its own here."""


def judge(*runs, steps=STEPS):
    """Judge runs in the given order. Each is given as changes of its specification and its losses at `steps`."""
    planned, rows, identities = {}, [], []
    for number, (changes, losses) in enumerate(runs):
        framework = changes.get("framework", "a")
        spec = make_spec(**{"family": FAMILIES.get(framework, framework)} | changes)
        identity = identify(FIXED, vars(spec))
        planned[f"run{number}"] = {"spec": spec.to_dict(), "unsupported": ""}
        identities.append(tuple(identity.values()))
        rows += [identity | {"last_step": step, "loss": loss} for step, loss in zip(steps, losses, strict=True)]
    losses = add_differences(pd.DataFrame(rows), FIXED | {"runs": planned}, set(identities))
    found = summarize_trajectories(losses)
    missing = {"trajectory": None, "trajectory_limit": None, "unstable_after_step": None}
    return pd.DataFrame([found.get(identity, missing) for identity in identities])


USUAL = (2.5, 2.2, 2.0)


def near(factor):
    return tuple(loss * factor for loss in USUAL)


def test_rounding_is_no_other_work():
    runs = judge(
        ({"framework": "a"}, USUAL), ({"framework": "b"}, near(1 + 5e-7)), ({"framework": "c"}, near(1 - 5e-7))
    )
    assert not has_unexplained_losses(runs).any()
    assert runs["trajectory"].tolist() == pytest.approx([0, 5e-7, 5e-7], rel=1e-3)


@pytest.mark.parametrize("step", range(3))
def test_a_run_that_deviates_in_any_window_is_found(step):
    wrong = [loss * (1.3 if position == step else 1) for position, loss in enumerate(USUAL)]
    usual = [({"framework": name}, near(1 + factor * 1e-7)) for name, factor in (("a", 1), ("c", -1))]
    runs = judge(usual[0], ({"framework": "b"}, wrong), usual[1])
    assert has_unexplained_losses(runs).tolist() == [False, True, False]
    assert runs["trajectory"].iloc[1] == pytest.approx(0.3, rel=1e-6)


def test_of_two_runs_that_differ_both_are_named():
    """Even the losses before the first update differ."""
    runs = judge(({"framework": "a"}, USUAL), ({"framework": "b"}, near(1.01)))
    assert has_unexplained_losses(runs).tolist() == [True, True]


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
        assert has_unexplained_losses(runs).all(), changes


def test_a_run_that_is_alone_is_not_judged():
    assert judge(({"framework": "a"}, USUAL))["trajectory"].isna().all()


def test_rounding_may_grow_in_jumps():
    """Losses of a short DenseNet trained by Adam in windows that end with these steps; all passed the gate."""
    usual, jumped = (0.74509, 0.733447, 0.706547, 0.709508, 0.686433), (0.74509, 0.733447, 0.706544, 0.709441, 0.686708)
    others = [({"framework": name}, usual) for name in ("pytorch_ddp", "keras_mirrored", "chainer_mn")]
    rounded = [({"framework": "jax_sharding"}, [loss * (1 + 2e-7) for loss in usual])]
    runs = judge(*others, *rounded, ({"framework": "mxnet_gluon"}, jumped), steps=(1, 2, 6, 10, 14))
    assert not has_unexplained_losses(runs).any() and runs["trajectory"].max() > 9e-5


def far_from(loss, factor):
    return (USUAL[0], loss * factor, USUAL[2] * factor)


def test_the_limit_follows_the_network_by_its_other_runs():
    """In a deep network rounding has carried all runs apart by the second window. One that is far off is found."""
    signs = {"a": -2, "b": -1, "c": 1, "d": 2}
    deep = [({"framework": name}, far_from(2.2, 1 + 2e-4 * sign)) for name, sign in signs.items()]
    assert not has_unexplained_losses(judge(*deep)).any()
    assert has_unexplained_losses(judge(*deep, ({"framework": "e"}, far_from(2.2, 1.15)))).tolist() == [False] * 4 + [
        True
    ]
    assert has_unexplained_losses(judge(*deep[:1], ({"framework": "e"}, far_from(2.2, 1.15)))).sum() == 0, (
        "a pair is within CEILING"
    )


def test_other_repeats_show_how_fast_rounding_grows_for_a_pair():
    first = [({"framework": name}, near(1 + 1e-6 * number)) for number, name in enumerate("ab")]
    second = [({"framework": name, "repeat": 2, "seed": 2}, near(1 + 0.1 * number)) for number, name in enumerate("ab")]
    assert has_unexplained_losses(judge(*first, *second)).tolist() == [False, False, True, True]


def test_copies_of_one_run_do_not_tighten_the_limit():
    """tf.distribute gives the same bits for several frameworks, which says nothing about rounding."""
    copies = [({"framework": f"copy{number}"}, USUAL) for number in range(4)]
    others = [({"framework": name}, far_from(2.2, 1 + sign * 1e-3)) for name, sign in (("b", 1), ("c", -1))]
    assert not has_unexplained_losses(judge(*copies, *others)).any()


@pytest.mark.parametrize("variants", [("prefetch",), ("prefetch", "no_prefetch")], ids=["alone", "two variants"])
@pytest.mark.parametrize("counts", [(1,), (1, 2)], ids=["one device count", "two device counts"])
def test_frameworks_with_the_same_kernels_do_not_show_how_fast_rounding_grows(counts, variants):
    runs = [
        ({"framework": name, "variant": variant, "num_gpus": count, "global_batch_size": 8 * count}, losses)
        for count in counts
        for variant in variants
        for name, losses in INCEPTION.items()
    ]
    assert not has_unexplained_losses(judge(*runs, steps=INCEPTION_STEPS)).any()


def test_a_deviating_framework_is_found_among_those_with_the_same_kernels():
    others = [({"framework": "tensorflow_mirrored"}, near(1 + 1e-7)), ({"framework": "pytorch_ddp"}, USUAL)]
    wrong = ({"framework": "keras_mirrored"}, far_from(2.2, 1.01))
    assert has_unexplained_losses(judge(*others, wrong)).tolist() == [False, False, True]


def test_many_runs_of_one_framework_do_not_decide_how_fast_rounding_grows():
    """In a deep network, PyTorch differs from its own variants by less than from the others."""
    signs = {"jax_sharding": -2, "mxnet_gluon": 1, "chainer_mn": 2}
    deep = [({"framework": name}, far_from(2.2, 1 + 2e-3 * sign)) for name, sign in signs.items()]
    variants = {f"v{number}": far_from(2.2, 1 + 1e-7 * number) for number in range(5)}
    same = [({"framework": "pytorch_ddp", "variant": name}, losses) for name, losses in variants.items()]
    assert not has_unexplained_losses(judge(*deep, *same)).any()
    assert has_unexplained_losses(judge(*deep, *same, ({"framework": "e"}, far_from(2.2, 1.3)))).tolist() == [
        False
    ] * 8 + [True]


@pytest.mark.parametrize(
    ("measured", "faulty"),
    [
        (SMALL_CNN, (2.96147871, 2.48472605, 2.31824914)),
        (RESNET44, (5.54609299, 12.44390321, 8.06686822)),
    ],
)
def test_gradients_that_are_not_averaged_are_found_and_rounding_is_not(measured, faulty):
    """The faulty run is PyTorch DDP, measured with require_backward_grad_sync = False."""
    runs = [({"framework": name}, losses) for name, losses in measured.items()]
    assert not has_unexplained_losses(judge(*runs, steps=MEASURED_STEPS)).any()
    judged = has_unexplained_losses(judge(*runs, ({"framework": "pytorch_ddp"}, faulty), steps=MEASURED_STEPS))
    assert judged.tolist() == [False] * len(runs) + [True]


UNSTABLE_STEPS = (1, 10, 50)
UNSTABLE = {"stock": (5.546091, 12.9, 3.1), "best": (5.546093, 13.6, 11.3)}
"""Losses of two variants of pytorch_ddp in a network whose learning rate is too high without a warm-up."""


@pytest.mark.parametrize("repeats", [1, 3])
@pytest.mark.parametrize("precision", ["fp32", "tf32", "bf16", "fp16"])
def test_an_unstable_training_is_not_compared_where_rounding_parts_its_losses(precision, repeats):
    same = {"framework": "pytorch_ddp", "precision": precision}
    runs = [
        (same | {"variant": name, "repeat": number, "seed": number}, losses)
        for number in range(1, repeats + 1)
        for name, losses in UNSTABLE.items()
    ]
    judged = judge(*runs, steps=UNSTABLE_STEPS)
    assert not has_unexplained_losses(judged).any()
    assert judged["unstable_after_step"].tolist() == [1] * len(runs)
    assert judged["trajectory"].max() < 1e-6, "the first window still counts"


@pytest.mark.parametrize("step", [0, 1])
def test_an_unstable_training_is_accused_by_its_first_steps(step):
    """No rounding grows to a quarter within two steps."""
    wrong = [loss * (1.7 if position >= step else 1) for position, loss in enumerate((5.5, 6.0, 12.0))]
    pair = [({"framework": "a"}, (5.5, 6.0, 12.0)), ({"framework": "b"}, wrong)]
    assert has_unexplained_losses(judge(*pair, steps=(1, 2, 10))).all()


@pytest.mark.parametrize("repeats", [1, 3])
@pytest.mark.parametrize(
    "faulty",
    [
        pytest.param((2.5, 3.9, 6.1, 9.0), id="ten times the rate"),
        pytest.param((2.5, 2.5, 2.5, 2.5), id="no learning"),
        pytest.param((2.5, 2.3, 1.9, 0.9), id="four times the batch"),
    ],
)
def test_a_fault_that_makes_one_run_unstable_is_found(faulty, repeats):
    """The calmest run of the same work says whether the training is unstable."""
    runs = []
    for number in range(1, repeats + 1):
        same = {"repeat": number, "seed": number}
        runs += [({"framework": "a"} | same, (2.5, 2.2, 1.6, 0.4)), ({"framework": "b"} | same, faulty)]
    judged = judge(*runs, steps=(1, 10, 30, 50))
    assert has_unexplained_losses(judged).all() and judged["unstable_after_step"].isna().all()


GROWING_STEPS = (1, 2, 3, 4, 5, 6, 7, 8)
CALM = (2.5, 2.4, 2.3, 2.2, 2.1, 2.0, 1.9, 1.8)


@pytest.mark.parametrize(
    ("differences", "is_accused"),
    [
        pytest.param((1e-7, 1e-6, 1.2e-5, 9e-5, 1e-3, 8e-3, 0.08, 0.7), False, id="rounding"),
        pytest.param((1e-7, 2e-2, 5e-2, 0.1, 0.2, 0.3, 0.5, 0.7), True, id="rate"),
        pytest.param((1e-7, 1e-5, 3e-5, 6e-5, 1e-4, 1.5e-4, 2e-4, 0.7), True, id="rate in a warm-up"),
        pytest.param((1e-7, 1e-7, 2e-7, 2e-7, 2e-7, 2e-7, 3e-7, 0.7), True, id="late fault"),
    ],
)
def test_steady_growth_from_rounding_is_told_from_a_fault(differences, is_accused):
    other = [loss * (1 + difference) for loss, difference in zip(CALM, differences, strict=True)]
    judged = judge(({"framework": "a"}, CALM), ({"framework": "b"}, other), steps=GROWING_STEPS)
    assert has_unexplained_losses(judged).tolist() == [is_accused] * 2
