"""Whether two means are the same within a margin: two one-sided tests (Schuirmann 1987), by a confidence interval."""

import math
from collections.abc import Iterable, Sequence
from functools import cache

import numpy as np

LEVEL = 0.95
"""Confidence of each of the two one-sided tests, so that the two-sided interval has 90 %."""
YES, NO, UNDECIDED = "yes", "no", "too few repeats"
ROUNDING = 1e-9
"""Difference of qualities that counts as none, because their sums are rounded."""
REACH, NUM_POINTS = 200.0, 200_001
"""The density of Student's t beyond REACH is below 1e-5 for one degree of freedom."""


@cache
def compute_t_quantile(freedom: int, level: float = LEVEL) -> float:
    """Return a quantile of Student's t distribution with `freedom` degrees of freedom, to three digits; at most REACH.

    The density is integrated from zero by the trapezoid rule, since half of the distribution is below zero.
    """
    t = np.linspace(0, REACH, NUM_POINTS)
    scale = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2) - 0.5 * math.log(freedom * math.pi)
    density = np.exp(scale - (freedom + 1) / 2 * np.log1p(t**2 / freedom))
    below = 0.5 + np.concatenate([[0], np.cumsum((density[1:] + density[:-1]) / 2 * (t[1] - t[0]))])
    return float(np.interp(level, below, t))


def pool(groups: Iterable[Sequence[float] | np.ndarray]) -> tuple[float, int]:
    """Return the pooled standard deviation within groups, and its degrees of freedom; zeros without any.

    Groups that are empty or have a value that is not finite are left out.
    """
    known = [np.asarray(each, float) for each in groups if len(each) and np.isfinite(each).all()]
    freedom = sum(len(each) - 1 for each in known)
    squares = sum(float(np.sum((each - each.mean()) ** 2)) for each in known)
    return (math.sqrt(squares / freedom), freedom) if freedom else (0.0, 0)


def exceeds(difference: float, margin: float) -> bool:
    """Whether a difference of means is above a margin by more than rounding: 0.91 - 0.9 does not exceed 0.01."""
    return difference > margin + ROUNDING


def compare_means(
    difference: float, spread: float, freedom: int, repeats: tuple[int, int], margin: float
) -> tuple[float, float, str]:
    """Return the confidence interval of a difference of means, and whether it shows that they are the same.

    spread: standard deviation of a single value; freedom: its degrees of freedom; repeats: values behind each mean.
    The means are the same if the whole interval is within +-margin, and not the same if the whole interval is outside.
    Otherwise, or without degrees of freedom, the repeats are too few to decide.
    """
    if not freedom or not all(repeats):
        return math.nan, math.nan, UNDECIDED
    reach = compute_t_quantile(freedom) * spread * math.sqrt(1 / repeats[0] + 1 / repeats[1])
    low, high = difference - reach, difference + reach
    if not exceeds(-low, margin) and not exceeds(high, margin):
        return low, high, YES
    return low, high, NO if exceeds(low, margin) or exceeds(-high, margin) else UNDECIDED
