"""
Which configurations their repeats cannot tell apart: each group has a leader, and all that cannot be told from it.

Two configurations are told apart if the interval of the ratio of their medians (report.intervals) does not contain 1.
Fewer than three repeats on each side do not reach 90 %: with two on each, one pair of equals in three would be told
apart. Such a pair, and one with a single repeat, must also differ by more than the usual scatter of the study, the
factor by which repeats of one configuration differ. It is the conformal quantile over the configurations (Vovk et al.
2005, Algorithmic Learning in a Random World), which holds for a further one without assumptions on the distribution,
if relative scatter does not depend on the configuration. Without any repeats, nothing tells configurations apart.

Not to be told apart is not transitive: if A and B are not, and B and C are not, A and C may be. The best median leads
the first group, and all that cannot be told from it are members; the best of the others leads the next group, and so
on. B is in the group of A, and C leads another, although it cannot be told from B. No chain joins A and C.
"""

from collections.abc import Iterable, Sequence
from math import ceil

import numpy as np
import pandas as pd

from howmanygpus.report.intervals import FEWEST, LEVEL, ratio_interval, ratio_level

Values = Sequence[float] | np.ndarray
SURE_LEVEL = 0.9
"""Level of the interval of a ratio, reached by three repeats on each side, from which on it decides alone."""


def measure_scatter(samples: Iterable[Values]) -> float:
    """Return the factor within which repeats of one configuration usually are; nan without any repeats.

    samples: the values of each configuration. Below 19 configurations with repeats, it is the largest of their ranges.
    """
    ranges = sorted(float(np.ptp(np.log(values))) for values in samples if len(values) >= FEWEST and min(values) > 0)
    if not ranges:
        return np.nan
    return float(np.exp(ranges[min(ceil((len(ranges) + 1) * LEVEL), len(ranges)) - 1]))


def are_told_apart(one: Values, other: Values, scatter: float) -> bool:
    """Return whether the repeats of two configurations tell them apart. scatter: of the study, or nan."""
    low, high = ratio_interval(one, other)
    if ratio_level(len(one), len(other)) >= SURE_LEVEL:
        return low > 1 or high < 1
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.divide(np.median(one), np.median(other))
        return bool(max(ratio, np.divide(1, ratio)) > scatter) and not low <= 1 <= high


def group_ties(samples: Sequence[Values], scatter: float) -> list[int]:
    """Return the number of each configuration's group, from 1 for the highest medians.

    samples: the values of each configuration, at least one each; scatter: as measure_scatter returns it for the study.
    Configurations with equal medians keep their order.
    """
    waiting = sorted(range(len(samples)), key=lambda position: -float(np.median(samples[position])))
    groups, number = [0] * len(samples), 0
    while waiting:
        leader, number = waiting[0], number + 1
        members = [each for each in waiting if not are_told_apart(samples[leader], samples[each], scatter)]
        for each in [leader, *members]:
            groups[each] = number
        waiting = [each for each in waiting if not groups[each]]
    return groups


def collect_samples(repeats: pd.DataFrame, keys: list[str], column: str) -> dict[tuple, np.ndarray]:
    """Return the known values of a column by configuration. repeats: one row per run; keys: name a configuration."""
    known = repeats[repeats[column].notna()]
    return {key: rows[column].to_numpy(float) for key, rows in known.groupby(keys, sort=False)}
