"""A network with Keras's own dropout, and with random numbers of its own, for tests of the parity gate."""

import keras
from keras import layers


class Noise(layers.Layer):
    """Multiplies by uniform random numbers with the mean 1."""

    def __init__(self):
        super().__init__()
        self.seed_generator = keras.random.SeedGenerator()

    def call(self, x: keras.KerasTensor, training: bool = False) -> keras.KerasTensor:
        if not training:
            return x
        return x * (0.5 + keras.random.uniform(keras.ops.shape(x), dtype=x.dtype, seed=self.seed_generator))


def build(image_shape: tuple[int, int, int], num_classes: int, width: int = 16, depth: int = 2) -> keras.Model:
    return keras.Sequential(
        [
            keras.Input(image_shape),
            layers.Conv2D(width, 3),
            layers.BatchNormalization(),
            layers.ReLU(),
            layers.AveragePooling2D(3),
            layers.Flatten(),
            Noise(),
            layers.Dense(16 * width, activation="relu"),
            layers.Dropout(0.5),
            layers.Dense(num_classes),
        ]
    )
