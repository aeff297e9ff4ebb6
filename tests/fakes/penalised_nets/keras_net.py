"""A network whose layers add losses that matter, for tests of the parity gate."""

import keras
from keras import layers


class Spread(layers.Layer):
    """Adds the mean square of its input to the loss."""

    def call(self, inputs):
        self.add_loss(3.0 * keras.ops.mean(keras.ops.square(inputs)))
        return inputs


def build(image_shape: tuple[int, int, int], num_classes: int, width: int = 16, depth: int = 2) -> keras.Model:
    inputs = keras.Input(image_shape)
    x = layers.Flatten()(layers.AveragePooling2D(4)(inputs))
    x = Spread()(layers.Dense(width, activation="relu", kernel_regularizer=keras.regularizers.L2(0.5))(x))
    return keras.Model(inputs, layers.Dense(num_classes, bias_regularizer=keras.regularizers.L1(0.5))(x))
