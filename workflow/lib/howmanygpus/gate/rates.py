"""Compute the learning rates of the reference."""

import math
from fractions import Fraction

import numpy as np

from howmanygpus.measure.spec import RunSpec


def round_half_up(number: Fraction) -> int:
    """Round to the nearest whole number, halves up."""
    return int(number) + (number - int(number) >= Fraction(1, 2))


def compute_rates(spec: RunSpec, steps_per_epoch: int, num_steps: int) -> np.ndarray:
    """Return the learning rate of every step in float64: scaling and warm-up, then the schedule.

    The formulas are written out again and not shared with measure.loop.schedule, so that a mistake there is seen.
    """
    optimizer, rates = spec.optimizer, []
    ratio = spec.global_batch_size / (optimizer.lr_reference_batch_size or spec.per_device_batch_size)
    peak = optimizer.learning_rate * {"none": 1, "linear": ratio, "sqrt": ratio**0.5}[optimizer.lr_scaling]
    num_warmup, *drops = (
        round_half_up(Fraction(str(epochs)) * steps_per_epoch)
        for epochs in (optimizer.lr_warmup_epochs, *optimizer.lr_step_epochs)
    )
    for step in range(num_steps):
        done = (step - num_warmup) / max(num_steps - num_warmup, 1)
        num_drops = sum(step >= drop for drop in drops)
        if step < num_warmup:
            fraction = (step + 1) / num_warmup
        elif optimizer.lr_schedule == "step":
            fraction = optimizer.lr_step_factor**num_drops
        elif optimizer.lr_schedule == "linear":
            fraction = 1 - done
        else:
            fraction = (1 + math.cos(math.pi * done)) / 2 if optimizer.lr_schedule == "cosine" else 1
        rates.append(peak * fraction)
    return np.array(rates)
