"""A small convolutional network in plain Keras, as a model file of the workflow; docs/own_model.md explains it."""

import keras
from keras import layers


def add_block(x: keras.KerasTensor, width: int) -> keras.KerasTensor:
    """Two convolutions with BatchNorm around a shortcut."""
    y = layers.Conv2D(width, 3, padding="same", use_bias=False)(x)
    y = layers.ReLU()(layers.BatchNormalization()(y))
    y = layers.Conv2D(width, 3, padding="same", use_bias=False)(y)
    return layers.ReLU()(layers.Add()([x, layers.BatchNormalization()(y)]))


def build(image_shape: tuple[int, int, int], num_classes: int, width: int = 16, depth: int = 2) -> keras.Model:
    """From normalised images (batch, height, width, channels) to logits, without a softmax."""
    inputs = keras.Input(image_shape)
    x = layers.Conv2D(width, 3, padding="same")(inputs)
    for _ in range(depth):
        x = add_block(x, width)
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(inputs, layers.Dense(num_classes)(x))
