"""A network whose layer keeps statistics of its own, for tests of the parity gate."""

import keras
from keras import layers


class OwnNorm(layers.Layer):
    """Subtracts the mean of the batch and, in evaluation, its moving mean."""

    def build(self, shape: tuple) -> None:
        self.moving = self.add_weight(shape=(shape[-1],), initializer="zeros", trainable=False)

    def call(self, x: keras.KerasTensor, training: bool = False) -> keras.KerasTensor:
        if not training:
            return x - self.moving
        mean = keras.ops.mean(x, axis=0)
        self.moving.assign(0.9 * self.moving + 0.1 * mean)
        return x - mean


def build(image_shape: tuple[int, int, int], num_classes: int, width: int = 16, depth: int = 2) -> keras.Model:
    inputs = keras.Input(image_shape)
    x = OwnNorm()(layers.Dense(width)(layers.Flatten()(inputs)))
    return keras.Model(inputs, layers.Dense(num_classes)(keras.ops.relu(x)))
