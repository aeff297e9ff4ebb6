"""An endless DataParallel loop, as users of PyTorch write it. On CPUs DataParallel has one device."""

import os
import sys

import numpy as np
import torch
from clock import report
from torch import nn

from howmanygpus.measure.frameworks.torch.layers.context import LayerContext
from howmanygpus.measure.frameworks.torch.walker import build

data_dir, batch_size, report_steps = sys.argv[1], *map(int, sys.argv[2:4])
torch.set_num_threads(len(os.sched_getaffinity(0)))

images = torch.from_numpy(np.load(f"{data_dir}/train_images.npy")).permute(0, 3, 1, 2).float().contiguous() / 127.5 - 1
labels = torch.from_numpy(np.load(f"{data_dir}/train_labels.npy")).long()
model = nn.DataParallel(build("resnet44", (32, 32, 3), 10, LayerContext(batchnorm="local")))
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
    report(steps * batch_size)
