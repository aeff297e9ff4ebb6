"""Which units dropout drops follows from seed, step, image and layer, and looks random in each of them."""

import numpy as np
import pytest

from howmanygpus.gate.task import compute_key
from howmanygpus.measure.models.dropout_draws import (
    PRIME,
    compute_drop_threshold,
    draw_units,
    factors_of_image,
    factors_of_units,
)

UNITS = 4096
SHAPE = (8, 9, 3)


def draw(image, seed=1, step=1, layer="dropout1"):
    keys = np.array([compute_key(image, seed, step)])
    return draw_units(keys, factors_of_units(layer, UNITS))[0] < compute_drop_threshold(0.5)


@pytest.fixture
def image():
    return np.random.default_rng(1).integers(0, 256, SHAPE, dtype=np.uint8)


def agreement(first, second):
    """Fraction of units that are dropped in both or in neither; 0.5 of independent draws, and 0.008 its deviation."""
    return (first == second).mean()


def test_no_number_exceeds_32_bits():
    assert PRIME**2 < 2**32 and PRIME * (1 + 2**14) < 2**32, "sums of so many rows and columns are products below 2**32"
    assert all(PRIME % divisor for divisor in range(2, 256)) and (PRIME - 1) % 3


def test_the_draw_of_a_unit_follows_the_formula(image):
    keys, factors = compute_key(image, 1, 1), factors_of_units("dropout1", UNITS).tolist()
    expected = [(keys[0] * a + keys[1] * b + c) % PRIME for a, b, c in zip(*factors, strict=True)]
    assert draw_units(np.array([keys]), factors_of_units("dropout1", UNITS))[0].tolist() == expected


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5, 0.9])
def test_the_rate_is_the_fraction_that_is_dropped(rate):
    keys = np.random.default_rng(2).integers(0, PRIME, (200, 2))
    draws = draw_units(keys, factors_of_units("dropout1", UNITS))
    assert (draws < compute_drop_threshold(rate)).mean() == pytest.approx(rate, abs=0.003)


@pytest.mark.parametrize(
    "changed",
    [{"seed": 2}, {"step": 2}, {"step": 3}, {"step": 1000}, {"layer": "dropout2"}],
    ids=lambda changed: "-".join(map(str, *changed.items())),
)
def test_other_seeds_steps_and_layers_drop_other_units(image, changed):
    assert agreement(draw(image), draw(image, **changed)) == pytest.approx(0.5, abs=0.04)


def test_images_that_differ_in_one_pixel_or_are_flipped_lose_other_units(image):
    changed = image.copy()
    changed[3, 4, 1] ^= 1
    assert agreement(draw(image), draw(changed)) == pytest.approx(0.5, abs=0.04)
    assert agreement(draw(image), draw(image[:, ::-1])) == pytest.approx(0.5, abs=0.04)
    assert np.array_equal(draw(image), draw(image.copy()))


def test_a_unit_is_dropped_in_half_of_all_steps_and_as_often_after_it_was_dropped(image):
    """A unit that kept its state from one step to the next, or alternated, would have other fractions."""
    steps = np.array([draw(image, step=step) for step in range(1, 201)])
    assert np.abs(steps.mean(axis=0) - 0.5).max() < 0.2
    assert np.abs((steps[1:] == steps[:-1]).mean(axis=0) - 0.5).max() < 0.2


def test_factors_depend_on_the_seed_of_images_and_on_the_layer_of_units():
    assert not np.array_equal(factors_of_image(1, SHAPE), factors_of_image(2, SHAPE))
    assert not np.array_equal(factors_of_units("a", 9), factors_of_units("b", 9))
    assert factors_of_image(1, SHAPE).shape == (2, 1 + 8 + 9 * 3)
