"""
Shares of a scaling loss: differences of the time that a device takes per image, relative to that at the larger count.

The loss of a configuration is 1 - efficiency = (end - base) / end, where `end` and `base` are the device-seconds per
image at the two device counts. A cause that takes `end_cost` and `base_cost` device-seconds per image has the share
(end_cost - base_cost) / end. Every share is therefore a sum of medians of groups of repeats, each with a sign, over the
median at the end. Shares are not forced to add up to the loss: causes may hide each other. The rest is `unexplained`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from howmanygpus.report.intervals import FEWEST, LEVEL

END, BASE = "end", "base"
LOSS, UNEXPLAINED = "loss", "unexplained"
RESAMPLES, SEED = 4000, 1
NAMED_FRAC = 0.01
"""Smallest share that is named as a cause."""
SPREAD_FRAC = 0.05
"""The same, if there is only one repeat; repeats on an otherwise idle machine differ by 1 to 3 %."""
Signs = Mapping[str, int]
"""Signs of groups of repeats by their names, such as {"end": 1, "base": -1} for the loss."""


@dataclass(frozen=True)
class Share:
    """A share with its interval, which is (nan, nan) if a group has one repeat only."""

    value: float
    low: float
    high: float

    @property
    def has_interval(self) -> bool:
        return not np.isnan(self.low)

    @property
    def is_shown(self) -> bool:
        """Whether the repeats show that the share is not zero, and it is large enough to be named."""
        if not self.has_interval:
            return abs(self.value) >= SPREAD_FRAC
        return abs(self.value) >= NAMED_FRAC and (self.low > 0 or self.high < 0)


def compute_shares(
    groups: Mapping[str, np.ndarray], causes: Mapping[str, Signs], parts: Mapping[str, Signs] | None = None
) -> dict[str, Share]:
    """Return the shares of the loss, of each cause and of what they leave unexplained, and of other parts of the time.

    groups: device-seconds per image of each repeat, by the group's name, with at least END and BASE. parts: signs of
    parts of the time at the end, which explain no loss. The intervals are those of a percentile bootstrap over the
    repeats of all groups.
    """
    signs: dict[str, dict[str, int]] = {LOSS: {END: 1, BASE: -1}} | {name: dict(own) for name, own in causes.items()}
    rest = dict(signs[LOSS])
    for own in causes.values():
        for group, sign in own.items():
            rest[group] = rest.get(group, 0) - sign
    signs[UNEXPLAINED] = {group: sign for group, sign in rest.items() if sign}
    signs |= {name: dict(own) for name, own in (parts or {}).items()}
    random = np.random.default_rng(SEED)
    medians = {name: float(np.median(values)) for name, values in groups.items()}
    resampled = {name: resample_medians(values, random) for name, values in groups.items()}
    return {name: _evaluate(own, groups, medians, resampled) for name, own in signs.items()}


def resample_medians(values: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Return RESAMPLES medians of values that are drawn with replacement."""
    return np.median(random.choice(values, (RESAMPLES, len(values))), axis=1)


def _evaluate(
    signs: Signs,
    groups: Mapping[str, np.ndarray],
    medians: Mapping[str, float],
    resampled: Mapping[str, np.ndarray],
) -> Share:
    value = sum(sign * medians[name] for name, sign in signs.items()) / medians[END]
    if not signs:
        return Share(0.0, 0.0, 0.0)
    if min(len(groups[name]) for name in {*signs, END}) < FEWEST:
        return Share(value, np.nan, np.nan)
    drawn = np.sum([sign * resampled[name] for name, sign in signs.items()], axis=0) / resampled[END]
    low, high = np.quantile(drawn, ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
    return Share(value, float(low), float(high))
