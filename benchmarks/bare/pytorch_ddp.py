"""An endless DistributedDataParallel loop, as users of PyTorch write it. Started by torchrun."""

import os
import sys

import numpy as np
import torch
import torch.distributed as dist
from clock import report
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from howmanygpus.measure.frameworks.torch.layers.context import LayerContext
from howmanygpus.measure.frameworks.torch.walker import build

data_dir, batch_size, report_steps = sys.argv[1], *map(int, sys.argv[2:4])
dist.init_process_group("gloo")
rank, world_size = dist.get_rank(), dist.get_world_size()
cores = sorted(os.sched_getaffinity(0))
os.sched_setaffinity(0, cores[rank * len(cores) // world_size : (rank + 1) * len(cores) // world_size])
torch.set_num_threads(len(cores) // world_size)

images = torch.from_numpy(np.load(f"{data_dir}/train_images.npy")).permute(0, 3, 1, 2).float().contiguous() / 127.5 - 1
labels = torch.from_numpy(np.load(f"{data_dir}/train_labels.npy")).long()
model = DistributedDataParallel(build("resnet44", (32, 32, 3), 10, LayerContext(batchnorm="local")))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
loss_function = nn.CrossEntropyLoss()

steps = 0
while True:
    for _ in range(report_steps):
        batch = torch.randint(len(images), (batch_size,))
        optimizer.zero_grad()
        loss_function(model(images[batch]), labels[batch]).backward()
        optimizer.step()
    steps += report_steps
    if rank == 0:
        report(steps * batch_size * world_size)
