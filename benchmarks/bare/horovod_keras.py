"""An endless Model.fit with Horovod on a tf.data pipeline, as users of Keras write it. Started by horovodrun."""

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


class AveragingSgd(keras.optimizers.SGD):
    def apply(self, grads, trainable_variables=None):
        super().apply([hvd.allreduce(gradient) for gradient in grads], trainable_variables)


images = np.load(f"{data_dir}/train_images.npy").astype(np.float32) / 127.5 - 1
labels = np.load(f"{data_dir}/train_labels.npy")
dataset = tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(len(images)).repeat()
dataset = dataset.batch(batch_size, drop_remainder=True).prefetch(tf.data.AUTOTUNE)
inputs = keras.Input((32, 32, 3))
model = keras.Model(inputs, build("resnet44", inputs, 10, LayerContext(batchnorm="local")))
hvd.broadcast_variables([variable.value for variable in model.variables], root_rank=0)
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(AveragingSgd(0.01, momentum=0.9), loss, jit_compile=False)


class Clock(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        if rank == 0:
            report((epoch + 1) * report_steps * batch_size * size)


model.fit(dataset, epochs=1_000_000_000, steps_per_epoch=report_steps, callbacks=[Clock()], verbose=0)
