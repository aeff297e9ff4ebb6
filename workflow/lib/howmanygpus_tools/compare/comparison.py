"""
The comparison of two results of a study: of two machines, versions or dates.

Rates are compared on a logarithmic scale, because a ratio is asked for.
"""

import itertools
import math
from dataclasses import dataclass
from statistics import NormalDist, fmean, median
from typing import Any

import numpy as np

from howmanygpus.report.equivalence import compute_t_quantile, pool
from howmanygpus.report.result import CONSTANT, KEY, Result

LEVEL = 0.98
"""Probability that no framework is said to differ if none does; likewise for the configurations, among themselves."""
BETWEEN = 0.02
"""Least standard deviation of the logarithm of a ratio of two series of runs on one machine, beside that of repeats.

A series takes minutes, in which a machine drifts. Measured by benchmarks/repeated_results.py.
"""
BETWEEN_PER_SCATTER = 0.75
"""The same standard deviation over that of a single repeat: a machine that scatters more drifts more.

Five results of benchmarks/repeated_results.py had a scatter of 4 to 12 %, and the series of a framework differed by
5 to 6 %.
"""


@dataclass(frozen=True)
class Ratio:
    """How many times as fast the second of two results is. names: of a configuration, or of all those of a framework.

    low and high: interval at LEVEL for all ratios of its kind together; nan if no configuration has two repeats.
    """

    names: dict[str, Any]
    first: float
    second: float
    ratio: float
    low: float
    high: float

    @property
    def is_difference(self) -> bool:
        """Whether chance explains the ratio badly."""
        return self.low > 1 or self.high < 1

    @property
    def least(self) -> float:
        """Return the least difference that would not contain 1 with this interval, as a fraction; nan without one."""
        return math.sqrt(self.high / self.low) - 1


@dataclass(frozen=True)
class Comparison:
    """All ratios of two results, of single configurations and of frameworks; and what is in one of them only.

    relative: ratios of frameworks, over the median of all of them; of two, that of the slower one over the other.
    """

    configurations: list[Ratio]
    frameworks: list[Ratio]
    relative: list[Ratio]
    only_first: list[dict[str, Any]]
    only_second: list[dict[str, Any]]

    @property
    def worst(self) -> float:
        """Return the lowest ratio of a framework that differs, or has lost relative to the others; 1 if none has."""
        lost = [each.names for each in self.relative if each.is_difference and each.ratio < 1]
        return min((each.ratio for each in self.frameworks if each.is_difference or each.names in lost), default=1.0)

    def list_differences(self) -> list[Ratio]:
        """Return the ratios of frameworks that are differences, and the relative ones of the other frameworks."""
        own = [each for each in self.frameworks if each.is_difference]
        named = [each.names for each in own]
        return [*own, *(each for each in self.relative if each.is_difference and each.names not in named)]

    def find_relative(self, framework: Ratio) -> Ratio | None:
        """Return the ratio of a framework relative to others."""
        return next((each for each in self.relative if each.names == framework.names), None)


def compare(first: Result, second: Result) -> Comparison:
    """Compare the rates of the configurations that both results have with a rate.

    The scatter of a single run is pooled over all configurations, as the standard deviation of the logarithm of its
    rate. Intervals are those of Student's t with the pooled degrees of freedom, widened by Bonferroni's rule for the
    number of ratios: of the frameworks, which are what is judged, and of the single configurations. Rates of one
    machine at two times differ more than repeats in one go, so that intervals are wider by what the machine drifts, and
    differences below about 5 % are never named. The drift is the same for frameworks whose runs alternate, so that
    their ratios relative to each other have only the least one.
    """
    names = choose_key(first, second)
    ours, theirs = _index(first, names), _index(second, names)
    both = [key for key in ours if key in theirs]
    spread, freedom = pool([np.log(each[key]) for key in both for each in (ours, theirs)])
    pairs = [_Pair.of(dict(zip(names, key, strict=True)), ours[key], theirs[key], spread) for key in both]
    of_framework = {
        name: _Pair.mean({"framework": name}, [pair for pair in pairs if pair.names["framework"] == name])
        for name in dict.fromkeys(pair.names["framework"] for pair in pairs)
    }
    relative = _relate(list(of_framework.values()))
    for_one, for_framework = (
        _Reach.of(number, spread, freedom) for number in (len(pairs), len(of_framework) + len(relative))
    )
    only_first, only_second = (
        [dict(zip(names, key, strict=True)) for key in one if key not in other]
        for one, other in ((ours, theirs), (theirs, ours))
    )
    return Comparison(
        [pair.make_ratio(for_one.add(pair.error)) for pair in pairs],
        [pair.make_ratio(for_framework.add(pair.error)) for pair in of_framework.values()],
        [pair.make_ratio(for_framework.add_least(pair.error)) for pair in relative],
        only_first,
        only_second,
    )


def choose_key(first: Result, second: Result) -> tuple[str, ...]:
    """Return what configurations are matched by: also devices or their models if one of the results has several."""
    rated = [_list_rated(result) for result in (first, second)]
    several = [
        name
        for name in ("device", "device_model")
        if any(len({_identify(one, (name,)) for one in each}) > 1 for each in rated)
    ]
    return (*KEY, *several)


def _index(result: Result, names: tuple[str, ...]) -> dict[tuple, list[float]]:
    """Return the rates of each configuration that has some."""
    return {_identify(one, names): [rate for rate in one["images_per_s"] if rate] for one in _list_rated(result)}


def _list_rated(result: Result) -> list[dict[str, Any]]:
    return [one for one in result["configurations"] if any(one["images_per_s"])]


def _identify(configuration: dict[str, Any], names: tuple[str, ...]) -> tuple:
    """Return what a configuration is matched by."""
    values = (configuration[name] for name in names)
    return tuple(", ".join(value) if isinstance(value, list) else value for value in values)


@dataclass(frozen=True)
class _Reach:
    """How far intervals reach: in standard errors of the repeats, and by what two series on one machine differ.

    least: what the series of frameworks differ by whose runs alternate, so that the drift is the same for all.
    """

    quantile: float
    between: float
    least: float

    @classmethod
    def of(cls, num_ratios: int, spread: float, freedom: int) -> "_Reach":
        """Return that of some ratios at LEVEL, by the scatter of a single run; nan without degrees of freedom."""
        level = 1 - (1 - LEVEL) / 2 / max(1, num_ratios)
        quantile = compute_t_quantile(freedom, level) if freedom else math.nan
        least = BETWEEN * NormalDist().inv_cdf(level)
        return cls(quantile, max(least, BETWEEN_PER_SCATTER * spread * quantile), least)

    def add(self, error: float) -> float:
        """Return the reach of a ratio with a standard error of its repeats; both parts are independent."""
        return math.hypot(self.quantile * error, self.between)

    def add_least(self, error: float) -> float:
        return math.hypot(self.quantile * error, self.least)


@dataclass(frozen=True)
class _Pair:
    """What both results have: the mean logarithms of its rates, and the standard error of their difference."""

    names: dict[str, Any]
    first: float
    second: float
    error: float

    @classmethod
    def of(cls, names: dict[str, Any], first: list[float], second: list[float], spread: float) -> "_Pair":
        """Return that of the rates of a configuration."""
        error = spread * math.sqrt(1 / len(first) + 1 / len(second))
        return cls(names, float(np.mean(np.log(first))), float(np.mean(np.log(second))), error)

    @classmethod
    def mean(cls, names: dict[str, Any], pairs: list["_Pair"]) -> "_Pair":
        """Return the geometric mean of several."""
        error = math.sqrt(sum(pair.error**2 for pair in pairs)) / len(pairs)
        return cls(names, fmean(pair.first for pair in pairs), fmean(pair.second for pair in pairs), error)

    def over(self, other: "_Pair") -> "_Pair":
        """Return the ratio of this one to another."""
        error = math.hypot(self.error, other.error)
        return _Pair(self.names, self.first - other.first, self.second - other.second, error)

    @property
    def shift(self) -> float:
        """Logarithm of the ratio."""
        return self.second - self.first

    def make_ratio(self, reach: float) -> Ratio:
        ends = (self.shift, self.shift - reach, self.shift + reach)
        return Ratio(self.names, *map(math.exp, (self.first, self.second, *ends)))


def _relate(frameworks: list[_Pair]) -> list[_Pair]:
    """Return each framework relative to the median of all, which one that has changed does not move.

    Of two, only the slower one is returned, relative to the other: nothing tells which of them has changed.
    """
    if len(frameworks) < 3:
        slower_first = sorted(frameworks, key=lambda pair: pair.shift)
        return [one.over(other) for one, other in itertools.pairwise(slower_first)]
    # The median of normal values has about pi / 2 times the variance of their mean.
    error = math.sqrt(math.pi / 2) * _Pair.mean({}, frameworks).error
    middle = _Pair({}, 0.0, median(pair.shift for pair in frameworks), error)
    return [one.over(middle) for one in frameworks]


def find_changes(first: Result, second: Result) -> list[str]:
    """Name what differs between the circumstances of two results: machine, versions, data, code, disturbed repeats."""
    changes = []
    disturbed = [sum(one["disturbed"] for one in each["configurations"]) for each in (first, second)]
    if any(disturbed):
        changes.append("repeats that other work disturbed, which count: {} -> {}".format(*disturbed))
    for name in CONSTANT:
        values = [sorted({value for one in each["configurations"] for value in one[name]}) for each in (first, second)]
        if values[0] != values[1]:
            changes.append(f"{name}: {', '.join(values[0]) or 'none'} -> {', '.join(values[1]) or 'none'}")
    return [*changes, *find_other_settings(first, second)]


def find_other_settings(first: Result, second: Result) -> list[str]:
    """Name the settings in which configurations that both results have differ; one that is not named is the default."""
    names = choose_key(first, second)
    changes: dict[str, set[str]] = {}
    ours, theirs = (
        {_identify(one, names): one["settings"] for one in _list_rated(result)} for result in (first, second)
    )
    for key in ours.keys() & theirs.keys():
        for setting in ours[key].keys() | theirs[key].keys():
            values = [str(each.get(setting, "default")) for each in (ours[key], theirs[key])]
            if values[0] != values[1]:
                changes.setdefault(setting, set()).add(" -> ".join(values))
    return [f"{setting}: {', '.join(sorted(values))}" for setting, values in sorted(changes.items())]


def tabulate(comparison: Comparison) -> list[dict[str, Any]]:
    """Return one row for each ratio, those of frameworks first. There must be one.

    A ratio relative to other frameworks is in the row of its framework.
    """
    names = comparison.configurations[0].names
    rows = []
    for each in (*comparison.frameworks, *comparison.configurations):
        rows.append({name: each.names.get(name, "all") for name in names})
        rows[-1] |= {"first_images_per_s": each.first, "second_images_per_s": each.second, "ratio": each.ratio}
        rows[-1] |= {"ratio_low": each.low, "ratio_high": each.high, "is_difference": each.is_difference}
        if relative := comparison.find_relative(each):
            rows[-1] |= {"relative": relative.ratio, "relative_low": relative.low, "relative_high": relative.high}
            rows[-1] |= {"is_relative_difference": relative.is_difference}
    return rows
