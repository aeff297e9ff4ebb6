"""The toy framework: one process that enqueues nothing."""

import numpy as np

from howmanygpus.measure.frameworks.toys.family import ToyBackend


class Toy(ToyBackend):
    def train_step(self, batch: np.ndarray, learning_rate: float) -> None:
        assert len(batch) == self.spec.global_batch_size


BACKEND = Toy
