#!/usr/bin/env bash
# Finding:  The same Keras model on two devices normalises each half of a batch by itself on TensorFlow's MirroredStrategy,
#           and the whole batch on JAX's DataParallel: other losses in the first step, with equal weights and images.
# Packages: tensorflow-cpu==2.21.0 keras==3.15.1 jax==0.10.2
# Topic:    what frameworks do differently
# Source:   JAX's arrays are global, so that a mean over the batch crosses devices; replicas of TensorFlow are separate.
# Guess:    one library, one meaning of batch statistics (expected with 40 %).
# Hurts:    comparisons of backends on several devices; small batches per device, where only TensorFlow's are noisy.
# Here:     one layer for all: each device has its own statistics, which the gate checks
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > step.py <<'P'
import contextlib
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import keras
import numpy as np

if keras.backend.backend() == "tensorflow":
    import tensorflow as tf

    halves = [tf.config.LogicalDeviceConfiguration()] * 2
    tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], halves)
    scope = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"], tf.distribute.ReductionToOneDevice()).scope()
else:
    keras.distribution.set_distribution(keras.distribution.DataParallel(devices=["cpu:0", "cpu:1"]))
    scope = contextlib.nullcontext()
with scope:
    normalise = keras.layers.BatchNormalization()
    dense = keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")
    model = keras.Sequential([keras.Input((1,)), normalise, dense])
    model.compile(keras.optimizers.SGD(0.0), "mse")
images = np.repeat([[1.0], [3.0]], 4, axis=0).astype("float32")
labels = np.array([[1.0], [2.0]] * 4, "float32")
print(f"{model.fit(images, labels, batch_size=8, shuffle=False, verbose=0).history['loss'][0]:.2f}")
P
mirrored=$(KERAS_BACKEND=tensorflow "$python" step.py 2>/dev/null | tail -n 1)
parallel=$(KERAS_BACKEND=jax XLA_FLAGS=--xla_force_host_platform_device_count=2 "$python" step.py 2>/dev/null | tail -n 1)
echo "loss of the first step on two devices: $mirrored on TensorFlow, $parallel on JAX"
[ "$mirrored $parallel" = "2.50 3.50" ]
