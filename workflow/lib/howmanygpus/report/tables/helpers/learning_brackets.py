"""
Brackets of the steps until a target by global batch.

The steps of a batch B are S(B) = S_min (1 + B_crit / B): below the critical batch, twice the batch needs half the
steps, and beyond it no fewer (McCandlish et al. 2018, arXiv:1812.06162, equation 2.7). Every pair of S_min and B_crit
that agrees with all measured batches is kept; the lowest and highest of their steps are the bracket. One measured batch
agrees with all critical batches, so that the bracket reaches from as many steps to as many images.

The gradient noise, where it was measured, tells the critical batch in another way, up to a factor that depends on the
network. It is printed beside the fitted one and changes nothing.
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


def bracket_noise_scale(squares: Sequence[float], traces: Sequence[float]) -> tuple[float, float] | None:
    """Return the noise scale less and plus two standard errors; None with fewer than two measurements.

    squares, traces: of each measurement, the estimates of |G|^2 and of S in the table `gradient_noise`. The scale is
    the ratio S/|G|^2 of their means; its error is that of a ratio of means to first order (Cochran 1977, Sampling
    Techniques, section 2.11). It is also None if a mean is not positive.
    """
    square, trace = np.asarray(squares, float), np.asarray(traces, float)
    if len(square) < 2 or square.mean() <= 0 or trace.mean() <= 0:
        return None
    scale = trace.mean() / square.mean()
    error = float(np.std(trace - scale * square, ddof=1) / np.sqrt(len(square)) / square.mean())
    return max(float(scale) - 2 * error, 0.0), float(scale) + 2 * error
