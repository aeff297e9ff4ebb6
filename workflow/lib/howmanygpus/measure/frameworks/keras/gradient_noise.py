"""
Squared norms of gradients of small batches and of the big batch that they make up, for the gradient noise scale.

The gradients are computed outside of the strategy's replicas, so that no device exchanges anything by itself. Running
statistics are restored.
"""

from collections.abc import Callable, Iterable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from howmanygpus.measure.frameworks.keras.losses import add_penalties


class GradientNorms:
    """Measures gradients on one device, by a function that TensorFlow traces once.

    variables: the trainable ones of the model on this device. state: all other variables on all devices. scale_loss:
    multiplies the loss by the loss scale.
    """

    def __init__(
        self,
        model: keras.Model,
        variables: list[tf.Variable],
        state: list[tf.Variable],
        loss_function: keras.losses.Loss,
        scale_loss: Callable,
    ):
        self._model, self._variables, self._state = model, variables, state
        self._loss_function, self._scale_loss = loss_function, scale_loss
        self._differentiate = tf.function(self._compute_gradient, autograph=False)

    def _compute_gradient(self, images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """Return the gradient of a small batch as one vector."""
        with tf.GradientTape() as tape:
            loss = self._loss_function(labels, self._model(images, training=True))
            loss = self._scale_loss(add_penalties(loss, self._model))
        gradients = tape.gradient(loss, self._variables, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        return tf.concat([tf.reshape(tf.cast(each, tf.float32), [-1]) for each in gradients], axis=0)

    def measure(
        self, parts: Iterable[tuple[tf.Tensor, tf.Tensor]], loss_scale: float
    ) -> tuple[list[float], np.ndarray]:
        """Return the squared norm of the gradient of each part, and the sum of the gradients.

        parts: (images, targets), of equal size.
        """
        before = [tf.identity(variable) for variable in self._state]
        norms: list[float] = []
        total: Any = 0.0  # a tensor from the first part on
        for images, targets in parts:
            gradient = self._differentiate(images, targets) / loss_scale
            norms.append(float(tf.reduce_sum(tf.square(tf.cast(gradient, tf.float64)))))
            total = total + gradient
        for variable, value in zip(self._state, before, strict=True):
            variable.assign(value)
        return norms, total.numpy()
