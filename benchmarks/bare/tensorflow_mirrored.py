"""An endless GradientTape loop under MirroredStrategy on a tf.data pipeline, as users of TensorFlow write it."""

import os
import sys

import keras
import numpy as np
import tensorflow as tf
from clock import report

from howmanygpus.measure.frameworks.keras.layers.context import LayerContext
from howmanygpus.measure.frameworks.keras.walker import build

data_dir, batch_size, report_steps, num_devices = sys.argv[1], *map(int, sys.argv[2:5])
global_batch_size = batch_size * num_devices
tf.config.threading.set_intra_op_parallelism_threads(len(os.sched_getaffinity(0)))
tf.config.threading.set_inter_op_parallelism_threads(max(2, num_devices))
host = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(host, [tf.config.LogicalDeviceConfiguration()] * num_devices)

images = np.load(f"{data_dir}/train_images.npy").astype(np.float32) / 127.5 - 1
labels = np.load(f"{data_dir}/train_labels.npy")
dataset = tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(len(images)).repeat()
dataset = dataset.batch(global_batch_size, drop_remainder=True).prefetch(tf.data.AUTOTUNE)
strategy = tf.distribute.MirroredStrategy([f"/cpu:{i}" for i in range(num_devices)])
with strategy.scope():
    inputs = keras.Input((32, 32, 3))
    model = keras.Model(inputs, build("resnet44", inputs, 10, LayerContext(batchnorm="local")))
    optimizer = keras.optimizers.SGD(0.01, momentum=0.9)
    optimizer.build(model.trainable_variables)
    loss_function = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="sum")


def train_replica(images, labels):
    with tf.GradientTape() as tape:
        loss = loss_function(labels, model(images, training=True)) / global_batch_size
    optimizer.apply(tape.gradient(loss, model.trainable_variables))
    return loss


@tf.function
def train_step(images, labels):
    return strategy.reduce("sum", strategy.run(train_replica, (images, labels)), axis=None)


for step, batch in enumerate(strategy.experimental_distribute_dataset(dataset), start=1):
    loss = train_step(*batch)
    if step % report_steps == 0:
        loss.numpy()
        report(step * global_batch_size)
