#!/usr/bin/env bash
# Finding:  Under MirroredStrategy, a Dropout layer of Keras 3 draws the same mask on every replica, where tf.nn.dropout
#           draws another on each.
# Packages: tensorflow-cpu==2.21.0 keras==3.15.1
# Topic:    what frameworks do differently
# Source:   the state of keras.random.SeedGenerator is a variable, which the strategy mirrors with equal values.
# Guess:    independent masks, as in the batch of one device.
# Hurts:    comparisons of device counts with dropout: image i of each share loses the same units.
# Here:     the seed of each layer's generator differs by device, docs/own_model.md
source "$(dirname "$(realpath "$0")")/setup.sh"
"$python" - <<'P' 2>/dev/null
import sys

import keras
import numpy as np
import tensorflow as tf

halves = [tf.config.LogicalDeviceConfiguration()] * 2
tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], halves)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"], tf.distribute.ReductionToOneDevice())
with strategy.scope():
    model = keras.Sequential([keras.Input((64,)), keras.layers.Dropout(0.5)])


@tf.function
def run(function):
    return strategy.run(function)


drops = {
    "keras.layers.Dropout": lambda: model(tf.ones((4, 64)), training=True),
    "tf.nn.dropout": lambda: tf.nn.dropout(tf.ones((4, 64)), 0.5),
}
same = {name: np.array_equal(*run(drop).values) for name, drop in drops.items()}
print("masks of both replicas equal:", same)
sys.exit(list(same.values()) != [True, False])
P
