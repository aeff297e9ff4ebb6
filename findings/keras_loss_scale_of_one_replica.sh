#!/usr/bin/env bash
# Finding:  Under MirroredStrategy, Keras's LossScaleOptimizer does not skip a step whose gradient is infinite on one
#           replica alone: the infinite sum is applied to all and the scale stays. On one device the step is skipped.
# Packages: tensorflow-cpu==2.21.0 keras==3.15.1
# Topic:    what frameworks do differently
# Source:   keras/src/optimizers/loss_scale_optimizer.py looks at the gradients of a replica before they are reduced.
# Guess:    any infinite gradient skips the step on all replicas and lowers the scale.
# Hurts:    mixed_float16 on several GPUs: one overflow on one of them ends the training.
# Here:     measure/frameworks/keras/loss_scaling.py asks all replicas; the gate plants overflows that are applied
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > scale.py <<'P'
import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import contextlib

import keras
import numpy as np
import tensorflow as tf

halves = [tf.config.LogicalDeviceConfiguration()] * 2
tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], halves)


def step(devices):
    """Return weight and loss scale after one step in which one of eight images is infinite."""
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"], tf.distribute.ReductionToOneDevice())
    with strategy.scope() if devices == 2 else contextlib.nullcontext():
        dense = keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")
        model = keras.Sequential([keras.Input((1,)), dense])
        optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1), initial_scale=8.0)
        model.compile(optimizer, "mse")
    images = np.ones((8, 1), "float32")
    images[4] = np.inf
    model.fit(images, np.zeros((8, 1), "float32"), batch_size=8, shuffle=False, verbose=0)
    return float(model.get_weights()[0][0, 0]), float(optimizer.dynamic_scale.numpy())


one, two = step(1), step(2)
print(f"weight and loss scale after the step: {one} on 1 device, {two} on 2")
sys.exit((one, two) != ((1.0, 4.0), (-np.inf, 8.0)))
P
"$python" scale.py 2>/dev/null
