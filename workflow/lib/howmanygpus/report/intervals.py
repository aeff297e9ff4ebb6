"""
Confidence intervals of medians and of ratios of medians, without an assumption of normality.

A median has the exact order-statistic interval (Conover, Practical Nonparametric Statistics, 1999, section 3.2). It
needs 6 values for 95 %. Fewer values have their range, whose exact level is 1 - 2^(1 - n): 50, 75, 88 and 94 % for 2
to 5 values. A percentile bootstrap of 3 values is this range too, and only claims a higher level.

A ratio has the percentile interval of the ideal bootstrap over both sides. The distribution of a resampled median is
known exactly (Maritz and Jarrett 1978, doi 10.1080/01621459.1978.10480027), so that every resample counts with its
probability and no random numbers are drawn. Few values do not reach the level that is asked for: if both sides scatter
alike relative to their medians, no interval of ratios can hold more often than 1 - 2 / C(n + m, n), which is 67 % for
two values on each side and 90 % for three.
"""

from collections.abc import Iterable
from math import comb

import numpy as np

LEVEL = 0.95
FEWEST = 2
"""Number of values below which nothing is known about their scatter."""
NEGLIGIBLE = 1e-9
"""Probability of a resampled median below which it is left out, so that many values take little memory."""


def median_interval(values: Iterable[float], level: float = LEVEL) -> tuple[float, float]:
    """Return the lowest and highest plausible median of a population. values: a sample of it; nan is ignored.

    The interval has at least this level from 6 values on for 95 %, and is the range of fewer values. It is (nan, nan)
    for fewer than two values.
    """
    ordered = _sort(values)
    if len(ordered) < FEWEST:
        return np.nan, np.nan
    rank = _choose_rank(len(ordered), level)
    return float(ordered[rank - 1]), float(ordered[-rank])


def ratio_interval(
    numerator: Iterable[float], denominator: Iterable[float], level: float = LEVEL
) -> tuple[float, float]:
    """Return the lowest and highest plausible ratio of the medians of two populations.

    numerator, denominator: samples of values that are not negative; nan is ignored. The interval of the inverse ratio
    is the inverse of the interval. It is (nan, nan) if a side has fewer than two values.
    """
    above, below = _sort(numerator), _sort(denominator)
    if min(len(above), len(below)) < FEWEST:
        return np.nan, np.nan
    (medians, chances), (others, other_chances) = _resample_median(above), _resample_median(below)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.divide.outer(medians, others).ravel()
    order = np.argsort(ratios)
    ratios, weights = ratios[order], np.multiply.outer(chances, other_chances).ravel()[order]
    # Rounding must not decide whether a tail is reached.
    tail = (1 - level) / 2 * weights.sum() * (1 - 1e-9)
    low, high = np.searchsorted(np.cumsum(weights), tail), np.searchsorted(np.cumsum(weights[::-1]), tail)
    return float(ratios[low]), float(ratios[::-1][high])


def ratio_level(num_above: int, num_below: int, level: float = LEVEL) -> float:
    """Return the level that ratio_interval can attain at most; nan if a side has fewer than two values.

    The bound holds if numerator and denominator differ by a factor: their repeats are then exchangeable after division
    by it, and the widest possible interval misses the factor if all of one side exceed all of the other.
    """
    if min(num_above, num_below) < FEWEST:
        return np.nan
    return min(level, 1 - 2 / comb(num_above + num_below, num_above))


def _sort(values: Iterable[float]) -> np.ndarray:
    array = np.asarray(list(values), dtype=float)
    return np.sort(array[~np.isnan(array)])


def _choose_rank(num_values: int, level: float) -> int:
    """Return the largest rank whose order statistic and its mirror image include the median at a level; at least 1."""
    ranks = range(1, num_values // 2 + 1)
    return max([rank for rank in ranks if _compute_level(num_values, rank) >= level], default=1)


def _compute_level(num_values: int, rank: int) -> float:
    """Return the level of the interval between the values of a rank and of its mirror image.

    It misses the median if fewer than `rank` values are on one side of the median, as heads of a fair coin.
    """
    return 1 - 2 * sum(comb(num_values, count) for count in range(rank)) / 2**num_values


def _resample_median(ordered: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the possible medians of a resample with replacement, and their probabilities. ordered: rising values."""
    num = len(ordered)
    half, is_odd = (num + 1) // 2, num % 2
    # The median, or the lower of the two middle values, is at most a value if `half` draws are.
    chance = np.arange(num + 1) / num
    lower = np.diff(sum(comb(num, k) * chance**k * (1 - chance) ** (num - k) for k in range(half, num + 1)))
    if is_odd:
        return ordered, lower
    # Half of the draws are at most the lower middle value, and half are at least the upper one.
    reached = np.diff(chance**half)
    joint = np.triu(comb(num, half) * np.multiply.outer(reached, reached[::-1]), k=1)
    joint += np.diag(lower - joint.sum(axis=1))
    first, second = np.nonzero(joint > NEGLIGIBLE)
    return (ordered[first] + ordered[second]) / 2, joint[first, second]
