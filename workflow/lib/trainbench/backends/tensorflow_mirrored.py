"""
A TensorFlow training loop of one's own under tf.distribute.MirroredStrategy: one process for all devices.

BatchNorm is local to each replica; the mean of the replicas' running statistics evaluates.
"""

import keras
import numpy as np
import tensorflow as tf

from trainbench.backend import StepwiseBackend
from trainbench.data import PreparedData
from trainbench.families.keras import (
    average_statistics,
    build_network,
    build_optimizer,
    build_predict,
    describe_device,
    find_devices,
    load_weights,
    read_peak_memory,
    read_weights,
    set_precision,
    split_over_replicas,
    versions,
)
from trainbench.spec import RunSpec


class TensorflowMirrored(StepwiseBackend):
    out_of_memory_errors = (tf.errors.ResourceExhaustedError,)

    def __init__(self, spec: RunSpec, data: PreparedData, weights: dict[str, np.ndarray], learning_rates: np.ndarray):
        self.spec = spec
        devices = find_devices(spec)
        set_precision(spec)
        self.strategy = tf.distribute.MirroredStrategy(devices)
        with self.strategy.scope():
            self.model = build_network(spec, data)
            load_weights(self.model, weights)
            self.optimizer = build_optimizer(spec.optimizer, learning_rates)
            self.optimizer.build(self.model.trainable_variables)
        self.loss_function = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="sum")
        best = spec.tier == "best"
        self._differentiate = (
            tf.function(self._compute_gradients, jit_compile=True) if best else self._compute_gradients
        )
        self._step = tf.function(self._step_on_all)
        self._predict = build_predict(self.strategy, self.model)
        self._losses = []

    def _compute_gradients(self, images, labels):
        with tf.GradientTape() as tape:
            loss = self.loss_function(labels, self.model(images, training=True)) / self.spec.global_batch_size
        return loss, tape.gradient(loss, self.model.trainable_variables)

    def _step_on_replica(self, images, labels):
        """One replica's part of a step; apply_gradients sums the gradients of all."""
        loss, gradients = self._differentiate(images, labels)
        self.optimizer.apply_gradients(zip(gradients, self.model.trainable_variables, strict=True))
        return loss

    def _step_on_all(self, images, labels):
        losses = self.strategy.run(self._step_on_replica, (images, labels))
        return self.strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)

    def train_step(self, images: np.ndarray, labels: np.ndarray, learning_rate: float) -> None:
        """The optimizer looks the learning rate up by itself, as Keras's schedules do."""
        self._losses.append(self._step(*split_over_replicas(self.strategy, images, labels)))

    def prepare_evaluation(self) -> None:
        average_statistics(self.strategy, self.model)

    def predict(self, images: np.ndarray) -> np.ndarray:
        return self._predict(images)

    def wait_until_idle(self) -> None:
        tf.test.experimental.sync_devices()

    def take_window_loss(self, num_steps: int) -> float:
        total = np.sum([loss.numpy() for loss in self._losses], dtype=np.float64)
        self._losses.clear()
        return float(total) / num_steps

    def max_over_ranks(self, value: float) -> float:
        return value

    def weights(self) -> dict[str, np.ndarray]:
        return read_weights(self.model)

    def peak_memory_bytes(self) -> int | None:
        return read_peak_memory(self.spec)

    def versions(self) -> dict[str, str]:
        return versions()

    def device_model(self) -> str | None:
        return describe_device()


BACKEND = TensorflowMirrored
