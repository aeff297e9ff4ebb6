"""
ResNet-44 with Model.fit under MirroredStrategy, as users of Keras write it. It imports nothing of this project.

Usage: python keras_mirrored.py DATA BATCH_SIZE WARMUP_STEPS STEPS. Prints images/s.
"""

import sys
import time

import keras
import numpy as np
import tensorflow as tf
from keras import layers


def block(x, channels, stride):
    skipped = x
    x = layers.Conv2D(channels, 3, strides=stride, padding="same", use_bias=False)(x)
    x = layers.ReLU()(layers.BatchNormalization()(x))
    x = layers.Conv2D(channels, 3, padding="same", use_bias=False)(x)
    x = layers.BatchNormalization()(x)
    if stride != 1:
        new_channels = channels - skipped.shape[-1]
        skipped = keras.ops.pad(skipped[:, ::stride, ::stride], ((0, 0), (0, 0), (0, 0), (0, new_channels)))
    return layers.ReLU()(layers.add([x, skipped]))


def build():
    inputs = keras.Input((32, 32, 3))
    x = layers.Rescaling(1 / 255)(inputs)
    x = layers.Conv2D(16, 3, padding="same", use_bias=False)(x)
    x = layers.ReLU()(layers.BatchNormalization()(x))
    for width in (16, 32, 64):
        for number in range(7):
            x = block(x, width, 2 if number == 0 and width > 16 else 1)
    return keras.Model(inputs, layers.Dense(10)(layers.GlobalAveragePooling2D()(x)))


def main():
    folder, batch_size, warmup_steps, steps = sys.argv[1], *map(int, sys.argv[2:])
    images, labels = (np.load(f"{folder}/train_{name}.npy") for name in ("images", "labels"))
    dataset = tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(len(images)).repeat()
    dataset = dataset.batch(batch_size, drop_remainder=True).prefetch(tf.data.AUTOTUNE)
    with tf.distribute.MirroredStrategy(["/cpu:0"]).scope():
        model = build()
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.SGD(0.01, momentum=0.9), loss)
    # Each epoch ends with a wait for its loss. A second call of fit would trace the step anew.
    ends = []
    timing = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: ends.append(time.perf_counter()))
    epochs = 1 + steps // warmup_steps
    model.fit(dataset, epochs=epochs, steps_per_epoch=warmup_steps, callbacks=[timing], verbose=0)
    print(f"images/s: {(epochs - 1) * warmup_steps * batch_size / (ends[-1] - ends[0])}", flush=True)


if __name__ == "__main__":
    main()
