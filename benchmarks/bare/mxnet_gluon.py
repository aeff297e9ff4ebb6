"""An endless imperative Gluon loop with a context per device and a Trainer, as users of MXNet write it."""

import os
import sys

os.environ["MXNET_CPU_WORKER_NTHREADS"] = sys.argv[4]

import mxnet as mx
import numpy as np
from clock import report
from mxnet import autograd, gluon

from howmanygpus.measure.frameworks.gluon.layers.context import LayerContext
from howmanygpus.measure.frameworks.gluon.walker import build

data_dir, batch_size, report_steps, num_devices = sys.argv[1], *map(int, sys.argv[2:5])
global_batch_size = batch_size * num_devices
images = np.load(f"{data_dir}/train_images.npy").transpose(0, 3, 1, 2).astype(np.float32) / 127.5 - 1
labels = np.load(f"{data_dir}/train_labels.npy")
contexts = [mx.cpu(i) for i in range(num_devices)]
model = build("resnet44", (32, 32, 3), 10, LayerContext("local", num_devices))
model.initialize(mx.init.Xavier(), ctx=contexts)
trainer = gluon.Trainer(model.collect_params(), "sgd", {"learning_rate": 0.01, "momentum": 0.9}, kvstore="device")
loss_function = gluon.loss.SoftmaxCrossEntropyLoss()

random, steps = np.random.default_rng(), 0
while True:
    for _ in range(report_steps):
        batch = random.integers(len(images), size=global_batch_size)
        shards = zip(
            gluon.utils.split_and_load(images[batch], contexts),
            gluon.utils.split_and_load(labels[batch], contexts),
            strict=True,
        )
        with autograd.record():
            losses = [loss_function(model(images), labels) for images, labels in shards]
        autograd.backward(losses)
        trainer.step(global_batch_size)
    mx.nd.waitall()
    steps += report_steps
    report(steps * global_batch_size)
