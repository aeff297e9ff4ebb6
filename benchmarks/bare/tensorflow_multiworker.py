"""An endless GradientTape loop under MultiWorkerMirroredStrategy, as users of TensorFlow write it.

The process starts one other for each further device, as a user's job script would.
"""

import json
import os
import socket
import subprocess
import sys
from contextlib import ExitStack

import keras
import numpy as np
import tensorflow as tf
from clock import report

from howmanygpus.measure.frameworks.keras.layers.context import LayerContext
from howmanygpus.measure.frameworks.keras.walker import build

data_dir, batch_size, report_steps, num_devices = sys.argv[1], *map(int, sys.argv[2:5])
if "TF_CONFIG" not in os.environ:
    with ExitStack() as held:
        sockets = [held.enter_context(socket.create_server(("localhost", 0))) for _ in range(num_devices)]
        workers = [f"localhost:{each.getsockname()[1]}" for each in sockets]
    configs = [{"cluster": {"worker": workers}, "task": {"type": "worker", "index": i}} for i in range(num_devices)]
    for config in configs[1:]:
        subprocess.Popen([sys.executable, *sys.argv], env=os.environ | {"TF_CONFIG": json.dumps(config)})
    os.environ["TF_CONFIG"] = json.dumps(configs[0])

rank = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
global_batch_size = batch_size * num_devices
cores = sorted(os.sched_getaffinity(0))
os.sched_setaffinity(0, cores[rank * len(cores) // num_devices : (rank + 1) * len(cores) // num_devices])
tf.config.threading.set_intra_op_parallelism_threads(len(cores) // num_devices)
tf.config.threading.set_inter_op_parallelism_threads(2)
strategy = tf.distribute.MultiWorkerMirroredStrategy()

images = np.load(f"{data_dir}/train_images.npy").astype(np.float32) / 127.5 - 1
labels = np.load(f"{data_dir}/train_labels.npy")
dataset = tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(len(images)).repeat()
dataset = dataset.batch(global_batch_size, drop_remainder=True).prefetch(tf.data.AUTOTUNE)
options = tf.data.Options()
options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
dataset = dataset.with_options(options)
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
    return strategy.run(train_replica, (images, labels))


for step, batch in enumerate(strategy.experimental_distribute_dataset(dataset), start=1):
    loss = train_step(*batch)
    if step % report_steps == 0:
        loss.numpy()
        if rank == 0:
            report(step * global_batch_size)
