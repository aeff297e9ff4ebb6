"""
Brackets of the steps until a target by global batch.

The steps of a batch B are S(B) = S_min (1 + B_crit / B): below the critical batch, twice the batch needs half the
steps, and beyond it no fewer (McCandlish et al. 2018, arXiv:1812.06162, equation 2.7). Every pair of S_min and B_crit
that agrees with all measured batches is kept; the lowest and highest of their steps are the bracket. One measured batch
agrees with all critical batches, so that the bracket reaches from as many steps to as many images.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from howmanygpus.report.tables.helpers.rate_brackets import NoBracket

FARTHEST = 2
"""Largest global batch over the largest that was measured: beyond, another learning rate may be needed."""
TOLERANCE = 0.03
"""Part of the steps that repeats with other seeds may differ by unless they show more."""
DECADES = 4
"""Orders of magnitude of the critical batch on both sides of the measured batches."""


@dataclass(frozen=True)
class Reached:
    """The steps until the target of a measured global batch.

    low, high: the target was missed after the one and reached after the other, over all repeats; both are infinite if
    a repeat never reached it.
    """

    batch: float
    low: float
    high: float

    @property
    def is_reached(self) -> bool:
        return bool(np.isfinite(self.high))


@dataclass(frozen=True)
class Learning:
    """Brackets of the steps, and of the critical batch in images; that of the batch is open without two batches."""

    low: float
    high: float
    critical_low: float
    critical_high: float


def bracket_steps(measured: Sequence[Reached], batch: float) -> Learning:
    """Return the bracket of the steps of a global batch.

    Raises NoBracket if the batch is too large for what was measured, if as large a batch did not reach the target, or
    if no curve of the form agrees with the measured batches.
    """
    reached = [each for each in measured if each.is_reached]
    missed = [each.batch for each in measured if not each.is_reached]
    if not reached or (missed and batch >= min(missed)):
        raise NoBracket("misses_target")
    if batch > FARTHEST * max(each.batch for each in reached) * (1 + 1e-9):
        raise NoBracket("batch_too_large")
    batches = np.array([each.batch for each in reached])
    lows = np.array([each.low for each in reached]) * (1 - TOLERANCE)
    highs = np.array([each.high for each in reached]) * (1 + TOLERANCE)
    criticals = np.geomspace(batches.min() / 10**DECADES, batches.max() * 10**DECADES, 2001)
    forms = 1 + criticals[:, None] / batches
    least, most = (lows / forms).max(axis=1), (highs / forms).min(axis=1)
    agrees = least <= most
    if not agrees.any():
        raise NoBracket("no_learning_fit")
    form = 1 + criticals[agrees] / batch
    criticals = criticals[agrees]
    return Learning(
        float((least[agrees] * form).min()), float((most[agrees] * form).max()), criticals.min(), criticals.max()
    )
