"""An endless Horovod loop in TensorFlow, as its users write it. Started by horovodrun."""

import os
import sys

import horovod.tensorflow as hvd
import keras
import numpy as np
import tensorflow as tf
from clock import report

from howmanygpus.measure.frameworks.keras.layers.context import LayerContext
from howmanygpus.measure.frameworks.keras.walker import build

data_dir, batch_size, report_steps = sys.argv[1], *map(int, sys.argv[2:4])
hvd.init()
rank, size = hvd.rank(), hvd.size()
cores = sorted(os.sched_getaffinity(0))
os.sched_setaffinity(0, cores[rank * len(cores) // size : (rank + 1) * len(cores) // size])
tf.config.threading.set_intra_op_parallelism_threads(len(cores) // size)
tf.config.threading.set_inter_op_parallelism_threads(2)

images = np.load(f"{data_dir}/train_images.npy").astype(np.float32) / 127.5 - 1
labels = np.load(f"{data_dir}/train_labels.npy")
dataset = tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(len(images)).repeat()
dataset = dataset.batch(batch_size, drop_remainder=True).prefetch(tf.data.AUTOTUNE)
inputs = keras.Input((32, 32, 3))
model = keras.Model(inputs, build("resnet44", inputs, 10, LayerContext(batchnorm="local")))
optimizer = keras.optimizers.SGD(0.01, momentum=0.9)
optimizer.build(model.trainable_variables)
hvd.broadcast_variables([variable.value for variable in model.variables], root_rank=0)
loss_function = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@tf.function
def train_step(images, labels):
    with tf.GradientTape() as tape:
        loss = loss_function(labels, model(images, training=True))
    tape = hvd.DistributedGradientTape(tape)
    optimizer.apply(tape.gradient(loss, [variable.value for variable in model.trainable_variables]))
    return loss


for step, batch in enumerate(dataset, start=1):
    loss = train_step(*batch)
    if step % report_steps == 0:
        loss.numpy()
        if rank == 0:
            report(step * batch_size * size)
