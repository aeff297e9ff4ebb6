#!/usr/bin/env bash
# Finding:  Under MirroredStrategy, Keras clips each replica's gradient before they are added: with two replicas and
#           global_clipnorm=1 the summed gradient has a norm of up to 2, where one device has 1.
# Packages: tensorflow-cpu==2.21.0 keras==3.15.1
# Topic:    what frameworks do differently
# Source:   keras/src/optimizers/base_optimizer.py clips, then the optimizer of its TensorFlow backend reduces.
# Guess:    the averaged gradient is clipped, as on one device and as after DistributedDataParallel.
# Hurts:    whoever compares device counts with clipping: more replicas take larger steps where the norm matters.
# Here:     no setting clips; a program of your own that does is another task on each number of devices
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > clip.py <<'P'
import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import contextlib

import keras
import numpy as np
import tensorflow as tf

halves = [tf.config.LogicalDeviceConfiguration()] * 2
tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], halves)
images = np.repeat([[1.0], [3.0]], 4, axis=0).astype("float32")


def step(devices, **options):
    """Return how far one step of size 1 moves the weight."""
    reduction = tf.distribute.ReductionToOneDevice()
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"], reduction)
    with strategy.scope() if devices == 2 else contextlib.nullcontext():
        dense = keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")
        model = keras.Sequential([keras.Input((1,)), dense])
        model.compile(keras.optimizers.SGD(1.0, **options), "mse")
    model.fit(images, np.zeros((8, 1), "float32"), batch_size=8, shuffle=False, verbose=0)
    return 1 - float(model.get_weights()[0][0, 0])


free = [step(devices) for devices in (1, 2)]
clipped = [step(devices, global_clipnorm=1.0) for devices in (1, 2)]
print(f"step on 1 and 2 devices: {free} without clipping, {clipped} with global_clipnorm=1")
sys.exit(not (np.allclose(free, 10) and np.allclose(clipped, [1, 2])))
P
"$python" clip.py 2>/dev/null
