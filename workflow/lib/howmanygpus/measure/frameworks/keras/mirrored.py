"""
A custom TensorFlow training loop under tf.distribute.MirroredStrategy: one process for all devices.

BatchNorm is local to each replica; evaluation uses the mean of the replicas' running statistics.
"""

import keras
import numpy as np
import tensorflow as tf

from howmanygpus.measure.frameworks.keras.family import sum_over_parts
from howmanygpus.measure.frameworks.keras.losses import add_penalties, build_loss
from howmanygpus.measure.frameworks.keras.replicas import MirroredBackend
from howmanygpus.measure.loop.backend import StepwiseBackend


class TensorflowMirrored(MirroredBackend, StepwiseBackend):
    def prepare_training(self, optimizer: keras.optimizers.Optimizer) -> None:
        self.optimizer = optimizer
        self.optimizer.build(self.model.trainable_variables)
        self.loss_function = build_loss(self.spec, self.data, reduction="sum")
        self._differentiate = self._compute_gradients
        if self.compiles:
            self._differentiate = tf.function(self._compute_gradients, jit_compile=True)
        self._step = tf.function(self._step_on_all)
        self._losses: list[tf.Tensor] = []

    @property
    def compiles(self) -> bool:
        return self.spec.tier == "best"

    def _compute_gradients(self, images, labels):
        return sum_over_parts(self._compute_part, images, labels, self.spec.accumulate)

    def _compute_part(self, images, labels):
        with tf.GradientTape() as tape:
            loss = self.loss_function(labels, self.model(images, training=True)) / self.spec.global_batch_size
            loss = add_penalties(loss, self.model, 1 / (self.spec.num_gpus * self.spec.accumulate))
            scaled = self.optimizer.scale_loss(loss)
        return loss, tape.gradient(scaled, self.model.trainable_variables)

    def _step_on_replica(self, images, labels):
        """Take one replica's part of a step. apply_gradients sums the gradients of all replicas."""
        loss, gradients = self._differentiate(images, labels)
        self.optimizer.apply_gradients(zip(gradients, self.model.trainable_variables, strict=True))
        return loss

    def _step_on_all(self, images, labels):
        losses = self.strategy.run(self._step_on_replica, (images, labels))
        return self.strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)

    def train_step(self, batch: tuple, learning_rate: float) -> None:
        """Take a step. The optimizer looks up the learning rate itself, as Keras's schedules do."""
        self._losses.append(self._step(*batch))

    def read_window_loss(self, num_steps: int) -> float:
        total = np.sum(tf.stack(self._losses).numpy(), dtype=np.float64)
        self._losses.clear()
        return float(total) / num_steps


BACKEND = TensorflowMirrored
