"""An endless Horovod loop in PyTorch, as its users write it. Started by horovodrun."""

import os
import sys

import horovod.torch as hvd
import numpy as np
import torch
from clock import report
from torch import nn

from howmanygpus.measure.frameworks.torch.layers.context import LayerContext
from howmanygpus.measure.frameworks.torch.walker import build

data_dir, batch_size, report_steps = sys.argv[1], *map(int, sys.argv[2:4])
hvd.init()
rank, size = hvd.rank(), hvd.size()
cores = sorted(os.sched_getaffinity(0))
os.sched_setaffinity(0, cores[rank * len(cores) // size : (rank + 1) * len(cores) // size])
torch.set_num_threads(len(cores) // size)

images = torch.from_numpy(np.load(f"{data_dir}/train_images.npy")).permute(0, 3, 1, 2).float().contiguous() / 127.5 - 1
labels = torch.from_numpy(np.load(f"{data_dir}/train_labels.npy")).long()
model = build("resnet44", (32, 32, 3), 10, LayerContext(batchnorm="local"))
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
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
        report(steps * batch_size * size)
