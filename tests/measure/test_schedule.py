"""Test learning rates and step counts."""

import numpy as np
import pytest

from helpers.specs import make_spec
from howmanygpus.measure.loop.schedule import count_steps_per_epoch, learning_rates, scaling_factor


def rates(num_steps, steps_per_epoch=10, **optimizer):
    spec = make_spec(steps=num_steps, epochs=None, optimizer={"learning_rate": 0.4, **optimizer})
    return learning_rates(spec, steps_per_epoch)


def test_constant():
    assert np.allclose(rates(30), 0.4)


def test_warmup_rises_linearly_to_the_rate_and_stays():
    warm = rates(30, lr_warmup_epochs=2)
    assert np.allclose(warm[:20], 0.4 * np.arange(1, 21) / 20)
    assert np.allclose(warm[20:], 0.4)


@pytest.mark.parametrize("schedule", ["constant", "cosine", "linear"])
def test_a_run_that_ends_within_the_warmup_rises_as_slowly_as_a_longer_one(schedule):
    assert np.allclose(rates(15, lr_warmup_epochs=2, lr_schedule=schedule), 0.4 * np.arange(1, 16) / 20)


def test_cosine_falls_from_the_rate_towards_zero_after_the_warmup():
    falling = rates(30, lr_schedule="cosine", lr_warmup_epochs=1)
    assert falling[9] == pytest.approx(0.4)
    assert falling[10] == pytest.approx(0.4)
    assert falling[20] == pytest.approx(0.2)
    assert 0 < falling[29] < 0.01
    assert np.all(np.diff(falling[10:]) < 0)


def test_linear_falls_from_the_rate_to_zero_after_the_warmup():
    falling = rates(30, lr_schedule="linear", lr_warmup_epochs=1)
    assert falling[9:11] == pytest.approx(0.4)
    assert np.allclose(falling[10:], 0.4 * np.arange(20, 0, -1) / 20)


def test_step_multiplies_the_rate_at_each_of_its_epochs():
    steps = {"lr_schedule": "step", "lr_step_epochs": [1.5, 2], "lr_step_factor": 0.5}
    assert np.allclose(rates(30, **steps), [0.4] * 15 + [0.2] * 5 + [0.1] * 10)
    warm = rates(30, lr_warmup_epochs=1, **steps)
    assert np.allclose(warm[:10], 0.4 * np.arange(1, 11) / 10) and np.allclose(warm[10:], rates(30, **steps)[10:])


@pytest.mark.parametrize(
    ("rule", "reference", "factor"),
    [("none", None, 1), ("linear", None, 4), ("sqrt", None, 2), ("linear", 8, 16), ("sqrt", 8, 4)],
)
def test_scaling_rule(rule, reference, factor):
    optimizer = {"lr_scaling": rule, "lr_reference_batch_size": reference}
    spec = make_spec(num_gpus=4, global_batch_size=128, optimizer=optimizer)
    assert scaling_factor(spec) == pytest.approx(factor)


def test_accumulated_batches_count_for_the_scaling():
    spec = make_spec(num_gpus=2, accumulate=3, global_batch_size=48, optimizer={"lr_scaling": "linear"})
    assert (spec.per_device_batch_size, scaling_factor(spec)) == (8, 6)


def test_incomplete_batches_are_dropped():
    assert count_steps_per_epoch(50, 8) == 6


def test_a_batch_larger_than_the_data_is_refused():
    with pytest.raises(ValueError, match="global batch of 64 images exceeds the 50 training images"):
        count_steps_per_epoch(50, 64)
