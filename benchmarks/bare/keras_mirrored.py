"""An endless Model.fit under MirroredStrategy on a tf.data pipeline, as users of Keras write it."""

import os
import sys

import keras
import numpy as np
import tensorflow as tf
from clock import report

from howmanygpus.measure.frameworks.keras.layers.context import LayerContext
from howmanygpus.measure.frameworks.keras.walker import build

data_dir, batch_size, report_steps, num_devices = sys.argv[1], *map(int, sys.argv[2:5])
tf.config.threading.set_intra_op_parallelism_threads(len(os.sched_getaffinity(0)))
tf.config.threading.set_inter_op_parallelism_threads(max(2, num_devices))
host = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(host, [tf.config.LogicalDeviceConfiguration()] * num_devices)

images = np.load(f"{data_dir}/train_images.npy").astype(np.float32) / 127.5 - 1
labels = np.load(f"{data_dir}/train_labels.npy")
dataset = tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(len(images)).repeat()
dataset = dataset.batch(batch_size * num_devices, drop_remainder=True).prefetch(tf.data.AUTOTUNE)
with tf.distribute.MirroredStrategy([f"/cpu:{i}" for i in range(num_devices)]).scope():
    inputs = keras.Input((32, 32, 3))
    model = keras.Model(inputs, build("resnet44", inputs, 10, LayerContext(batchnorm="local")))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.01, momentum=0.9), loss)


class Clock(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        report((epoch + 1) * report_steps * batch_size * num_devices)


model.fit(dataset, epochs=1_000_000_000, steps_per_epoch=report_steps, callbacks=[Clock()], verbose=0)
