"""Intervals of medians and of their ratios hold as often as they say, whatever the distribution."""

import itertools

import numpy as np
import pytest

from howmanygpus.report.intervals import median_interval, ratio_interval, ratio_level

POPULATIONS = {
    "normal": lambda generator, size: generator.normal(100, 3, size),
    "skewed": lambda generator, size: 100 - generator.exponential(3, size),
    "heavy": lambda generator, size: 100 * np.exp(0.01 * generator.standard_t(2, size)),
}
MEDIANS = {"normal": 100.0, "skewed": 100 - 3 * np.log(2), "heavy": 100.0}
TRIALS = 4000
ROUNDS = 3 * np.sqrt(0.25 / TRIALS)
"""Three standard errors of a simulated level at most."""


@pytest.mark.parametrize(
    ("num", "places"),
    [(2, (0, 1)), (3, (0, 2)), (5, (0, 4)), (6, (0, 5)), (8, (0, 7)), (9, (1, 7)), (12, (2, 9)), (20, (5, 14))],
)
def test_the_interval_of_a_median_is_that_of_printed_tables(num, places):
    values = np.random.default_rng(num).permutation(np.arange(num))
    assert median_interval(values) == places


@pytest.mark.parametrize("values", [[], [100.0], [100.0, float("nan")]], ids=["none", "one", "one and nan"])
def test_fewer_than_two_values_have_no_interval(values):
    assert np.isnan(median_interval(values)).all()
    for sides in ((values, [1.0, 2.0]), ([1.0, 2.0], values)):
        assert np.isnan(ratio_interval(*sides)).all()
    assert np.isnan(ratio_level(1, 5))


@pytest.mark.parametrize("population", POPULATIONS)
@pytest.mark.parametrize(("num", "level"), [(2, 0.5), (3, 0.75), (5, 0.9375), (10, 0.9785), (11, 0.9883)])
def test_the_interval_of_a_median_has_its_level(num, level, population):
    samples = POPULATIONS[population](np.random.default_rng(num), (TRIALS, num))
    low, high = np.array([median_interval(sample) for sample in samples]).T
    held = np.mean((low <= MEDIANS[population]) & (MEDIANS[population] <= high))
    assert held == pytest.approx(level, abs=ROUNDS)


@pytest.mark.parametrize("population", POPULATIONS)
@pytest.mark.parametrize(("num", "other"), [(2, 2), (3, 3), (4, 4), (5, 5), (10, 10), (3, 10)])
def test_the_interval_of_a_ratio_has_nearly_its_level(num, other, population):
    """The bootstrap is approximate; at most 4 % of its intervals too many miss the ratio."""
    generator = np.random.default_rng(num + other)
    above = 1.9 * POPULATIONS[population](generator, (TRIALS, num))
    below = POPULATIONS[population](generator, (TRIALS, other))
    low, high = np.array([ratio_interval(*sides) for sides in zip(above, below, strict=True)]).T
    held = np.mean((low <= 1.9) & (high >= 1.9))
    assert ratio_level(num, other) - 0.04 - ROUNDS <= held


def test_the_interval_of_a_ratio_is_that_of_all_resamples():
    """The ideal bootstrap has no random numbers: every resample of both sides counts once."""
    above, below = [3.0, 1.0, 2.5], [1.1, 0.9, 1.0, 1.4]
    medians = [[np.median(draw) for draw in itertools.product(side, repeat=len(side))] for side in (above, below)]
    ratios = np.sort(np.divide.outer(*medians).ravel())
    for level in (0.5, 0.8, 0.95):
        tail = int(np.ceil(len(ratios) * (1 - level) / 2 - 1e-6)) - 1
        assert ratio_interval(above, below, level) == pytest.approx((ratios[tail], ratios[-1 - tail]))


def test_three_repeats_on_each_side_give_the_whole_range():
    assert ratio_interval([190, 200, 210], [99, 100, 101]) == pytest.approx((190 / 101, 210 / 99))
    assert ratio_level(3, 3) == pytest.approx(0.9) and ratio_level(2, 2) == pytest.approx(2 / 3)
    assert ratio_level(5, 5) == 0.95


@pytest.mark.parametrize("seed", range(20))
def test_intervals_follow_units_order_and_sides(seed):
    generator = np.random.default_rng(seed)
    above, below = (generator.lognormal(4, 0.1, generator.integers(2, 13)) for _ in range(2))
    low, high = ratio_interval(above, below)
    assert low <= np.median(above) / np.median(below) <= high
    assert ratio_interval(generator.permutation(above), below) == (low, high)
    assert ratio_interval(below, above) == pytest.approx((1 / high, 1 / low))
    assert ratio_interval(60 * above, below) == pytest.approx((60 * low, 60 * high))
    first, last = median_interval(above)
    assert first <= np.median(above) <= last
    assert median_interval(60 * above) == pytest.approx((60 * first, 60 * last))
    narrow = ratio_interval(above, below, level=0.5)
    assert low <= narrow[0] <= narrow[1] <= high


def test_many_values_are_no_burden():
    generator = np.random.default_rng(0)
    low, high = ratio_interval(generator.normal(200, 2, 400), generator.normal(100, 1, 401))
    assert 1.99 < low < 2 < high < 2.01


def test_values_of_zero_have_an_interval():
    assert ratio_interval([0.0, 0.0, 0.0], [0.4, 0.5, 0.6]) == (0, 0)
    assert ratio_interval([0.4, 0.5, 0.6], [0.0, 0.0, 0.0]) == (np.inf, np.inf)
