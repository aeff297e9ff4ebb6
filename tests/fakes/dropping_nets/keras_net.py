"""A network with Keras's own dropout, for tests of the parity gate."""

import keras
from keras import layers


def build(image_shape: tuple[int, int, int], num_classes: int, width: int = 16, depth: int = 2) -> keras.Model:
    inputs = keras.Input(image_shape)
    x = layers.Dense(width, activation="relu")(layers.Flatten()(layers.AveragePooling2D(4)(inputs)))
    return keras.Model(inputs, layers.Dense(num_classes)(layers.Dropout(0.5)(x)))
