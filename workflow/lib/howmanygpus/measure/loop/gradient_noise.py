"""
Measurements of the gradient noise of a run, between its windows.

The batches are those of the first steps of the epoch that ends, with the weights at its end. Every image has been used
equally often by then, so the weights fit no batch better than another. The report computes the noise scale from the
measurements.
"""

import time

from howmanygpus.measure.input.batches import TrainingBatches
from howmanygpus.measure.input.prepared import PreparedData
from howmanygpus.measure.loop.backend import Backend
from howmanygpus.measure.loop.targets import read_targets
from howmanygpus.measure.records import finite_or_none
from howmanygpus.measure.spec import RANDOM_INPUTS, RunSpec

SMALL_BATCHES = 8
"""Number of per-device gradients in a measurement, if the epoch has as many. More of them make estimates vary less."""


class GradientNoise:
    """One process's part in every measurement of a run. Random images are not measured."""

    def __init__(self, spec: RunSpec, data: PreparedData, backend: Backend, batches: TrainingBatches):
        self._spec, self._data, self._backend, self._batches = spec, data, backend, batches
        self._small_in_step = spec.global_batch_size // spec.per_device_batch_size

    def is_due(self, steps_done: int, num_steps: int) -> bool:
        """Return whether a measurement follows a step: after every gradient_noise_every_epochs, and after the run."""
        every = self._spec.gradient_noise_every_epochs
        if every is None or self._spec.input in RANDOM_INPUTS or len(self._steps(steps_done)) * self._small_in_step < 2:
            return False
        return steps_done % (every * self._batches.steps_per_epoch) == 0 or steps_done == num_steps

    def _steps(self, steps_done: int) -> range:
        """Return the first steps of the last epoch, until they have SMALL_BATCHES per-device batches or it ends."""
        per_epoch = self._batches.steps_per_epoch
        start = (steps_done - 1) // per_epoch * per_epoch
        return range(start, min(start + -(-SMALL_BATCHES // self._small_in_step), steps_done))

    def measure(self, steps_done: int) -> dict:
        """Return the event of a measurement. Every process must call it. Norms that are not finite are null."""
        started, steps = time.perf_counter(), self._steps(steps_done)
        batches = read_targets(self._batches.load_steps(steps), self._spec, self._data, steps.start)
        small, big = self._backend.measure_gradients(batches)
        return {
            "epoch": steps.start // self._batches.steps_per_epoch + 1,
            "step": steps_done,
            "images_small": self._spec.per_device_batch_size,
            "images_big": len(steps) * self._spec.global_batch_size,
            "squared_norm_small": finite_or_none(small),
            "squared_norm_big": finite_or_none(big),
            "elapsed_s": self._backend.max_over_ranks(time.perf_counter() - started),
        }
