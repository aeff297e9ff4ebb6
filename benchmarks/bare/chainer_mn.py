"""An endless ChainerMN loop, as users of Chainer write it. Started by mpirun."""

import os
import sys

import chainer
import chainer.functions as F
import chainermn
import numpy as np
from clock import report

from howmanygpus.measure.frameworks.chainer.layers.context import LayerContext
from howmanygpus.measure.frameworks.chainer.walker import build

data_dir, batch_size, report_steps = sys.argv[1], *map(int, sys.argv[2:4])
communicator = chainermn.create_communicator("naive")
rank, world_size = communicator.rank, communicator.size
cores = sorted(os.sched_getaffinity(0))
os.sched_setaffinity(0, cores[rank * len(cores) // world_size : (rank + 1) * len(cores) // world_size])

images = np.load(f"{data_dir}/train_images.npy").transpose(0, 3, 1, 2).astype(np.float32, order="C") / 127.5 - 1
labels = np.load(f"{data_dir}/train_labels.npy")
model = build("resnet44", (32, 32, 3), 10, LayerContext("local"))
optimizer = chainermn.create_multi_node_optimizer(chainer.optimizers.MomentumSGD(0.01, momentum=0.9), communicator)
optimizer.setup(model)


def compute_loss(images, labels):
    return F.softmax_cross_entropy(model(images), labels)


random, steps = np.random.default_rng(), 0
while True:
    for _ in range(report_steps):
        batch = random.integers(len(images), size=batch_size)
        optimizer.update(compute_loss, images[batch], labels[batch])
    steps += report_steps
    if rank == 0:
        report(steps * batch_size * world_size)
