"""The limits of the parity gate let rounding pass, and no gradient that is zero, flipped or tripled."""

import dataclasses

import numpy as np
import pytest

from helpers.specs import make_spec
from howmanygpus.gate.allowances import Allowances
from howmanygpus.gate.judge import compare_wholes

NAMES = {"conv.kernel": (3, 3, 4, 40), "dense.bias": (10,)}


@pytest.fixture
def make_allowances():
    """A function from a precision, a compression and the relative noise of bf16 to limits, and a whole gradient."""

    def make(precision="fp32", compression="none", noise=0.1, **other):
        random = np.random.default_rng(0)
        gradient = {name: random.normal(size=shape) for name, shape in NAMES.items()}
        expected = {"logits": np.ones(3), "noise/logits": np.array([noise])}
        expected |= {"fine_noise/logits": np.array([noise / 2])}
        for name, array in gradient.items():
            expected |= {f"gradient/{name}": array, f"final_mean/{name}": array}
            expected |= {f"rounding/gradient/{name}": np.zeros(1)}
            for prefix, relative in (("noise", noise), ("fine_noise", noise / 2)):
                expected |= {f"{prefix}/gradient/{name}": np.array([relative * np.linalg.norm(array)])}
        spec = dataclasses.replace(make_spec(global_batch_size=4, steps=6), precision=precision)
        return Allowances(dataclasses.replace(spec, gradient_compression=compression, **other), expected), gradient

    return make


@pytest.mark.parametrize("factor", [0.0, -1.0, 3.0])
@pytest.mark.parametrize("noise", [0.001, 0.1, 10.0])
@pytest.mark.parametrize(
    ("precision", "compression"),
    [
        ("fp32", "none"),
        ("tf32", "none"),
        ("bf16", "none"),
        ("fp16", "none"),
        ("fp32", "fp16"),
        ("fp32", "powersgd"),
        ("bf16", "powersgd"),
    ],
)
def test_no_limit_admits_a_zero_flipped_or_tripled_gradient(precision, compression, noise, factor, make_allowances):
    """However large the noise of a model is."""
    allowances, gradient = make_allowances(precision, compression, noise)
    found = {name: factor * array for name, array in gradient.items()}
    _, cosine, ratio = compare_wholes(found, gradient)
    limits = allowances.get_whole_limits("gradient", gradient)
    assert 1 - cosine > limits.direction or abs(ratio - 1) > limits.norm


def test_limits_in_fp32_follow_the_measured_effect_of_float32(make_allowances):
    """Those of a step's loss know nothing of later steps; without measured changes they are the fixed ones."""
    allowances, gradient = make_allowances()
    losses = np.array([2.0, 2.0, 2.0])
    allowances.expected |= {"losses": losses}
    fixed = (
        [allowances.get_loss_limit(step) for step in (1, 2, 3)],
        allowances.get_whole_limits("gradient", gradient).norm,
    )
    changed = {f"float32/gradient/{name}": np.array(0.01 * np.linalg.norm(gradient[name])) for name in gradient}
    allowances.expected |= changed | {"float32/losses": np.array([0.0, 0.003, -0.004])}
    widened = (
        [allowances.get_loss_limit(step) for step in (1, 2, 3)],
        allowances.get_whole_limits("gradient", gradient).norm,
    )
    expected = [fixed[0][0], fixed[0][1] + 4 * 0.003 / 2, fixed[0][2] + 4 * 0.005 / 2], fixed[1] + 4 * 0.01
    assert widened[0] == pytest.approx(expected[0]) and widened[1] == pytest.approx(expected[1])
    off = gradient | {"dense.bias": 1.03 * gradient["dense.bias"]}
    (value, limit, _), _ = allowances.find_worst("gradient", off, gradient)
    assert value == pytest.approx(0.03) and value < limit < 0.05


def test_an_array_is_judged_by_itself_where_its_noise_allows(make_allowances):
    allowances, gradient = make_allowances("bf16", noise=0.1)
    zeroed = gradient | {"conv.kernel": 0.0 * gradient["conv.kernel"]}
    for noise, num_unjudged in ((0.1, 0), (0.3, 1)):
        allowances, gradient = make_allowances("bf16", noise=noise)
        (value, limit, name), count = allowances.find_worst("gradient", zeroed, gradient)
        assert value > limit and (name, count) == ("conv.kernel", num_unjudged)
    allowances, gradient = make_allowances("bf16", noise=0.5)
    assert allowances.find_worst("gradient", zeroed, gradient) == (None, 2)


@pytest.mark.parametrize(
    ("other", "is_coarse"),
    [
        ({"family": "keras", "device_kind": "cpu"}, True),
        ({"family": "keras", "device_kind": "cuda"}, False),
        ({"family": "torch", "device_kind": "cpu"}, False),
    ],
)
def test_only_kernels_that_were_measured_as_coarser_may_differ_by_more(make_allowances, other, is_coarse):
    """In the whole gradient, and in other precisions, they may not."""
    for precision in ("bf16", "fp16", "fp32"):
        (usual, gradient), (own, _) = make_allowances(precision), make_allowances(precision, **other)
        changed = {name: 0.01 * array for name, array in gradient.items()}
        limits = [each.find_worst("gradient", changed, gradient)[0][1] for each in (usual, own)]
        assert (limits[1] > limits[0]) == (is_coarse and precision == "bf16")
        assert usual.get_whole_limits("gradient", gradient) == own.get_whole_limits("gradient", gradient)


@pytest.mark.parametrize("precision", ["tf32", "fp16"])
def test_tf32_and_fp16_have_the_noise_of_their_significant_bits(precision, make_allowances):
    wide, narrow = (make_allowances(name)[0].of("logits") for name in ("bf16", precision))
    fixed = make_allowances(precision, noise=0.0)[0].of("logits")
    assert narrow > fixed > make_allowances("fp32")[0].of("logits")
    assert (narrow - fixed) * 2 == pytest.approx(wide - fixed)


def test_the_noise_of_fp16_is_at_least_a_fraction_of_the_noise_of_bf16(make_allowances):
    """A simulation may by chance move no ReLU input to the other side of zero. The least noise is not widened."""
    allowances, _ = make_allowances("fp16")
    allowances.expected["fine_noise/logits"] = np.array(0.0)
    fixed = make_allowances("fp16", noise=0.0)[0].of("logits")
    wide = make_allowances("bf16")[0].of("logits")
    assert allowances.of("logits") - fixed == pytest.approx((wide - fixed) / 2**1.5)
    assert allowances.compute_logits_noise() == 0.0


def test_float32_admits_its_own_rounding_only(make_allowances):
    allowances, gradient = make_allowances()
    found = {name: array * (1 + 0.01) for name, array in gradient.items()}
    (value, limit, _), _ = allowances.find_worst("gradient", found, gradient)
    assert value > limit
