"""
ResNet-44 with DistributedDataParallel, as users of PyTorch write it. It imports nothing of this project.

Usage: torchrun --nproc-per-node N pytorch_ddp.py DATA BATCH_SIZE WARMUP_STEPS STEPS. Prints images/s of all processes.
"""

import sys
import time

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


class Block(nn.Module):
    def __init__(self, in_channels, channels, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, channels, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.stride, self.new_channels = stride, channels - in_channels

    def forward(self, x):
        out = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        if self.stride != 1:
            x = F.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, 0, self.new_channels))
        return F.relu(out + x)


class ResNet44(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU())
        blocks, channels = [], 16
        for width in (16, 32, 64):
            for block in range(7):
                blocks.append(Block(channels, width, 2 if block == 0 and width > 16 else 1))
                channels = width
        self.blocks, self.fc = nn.Sequential(*blocks), nn.Linear(channels, 10)

    def forward(self, x):
        return self.fc(self.blocks(self.stem(x)).mean(dim=(2, 3)))


def main():
    folder, batch_size, warmup_steps, steps = sys.argv[1], *map(int, sys.argv[2:])
    dist.init_process_group("gloo")
    images = torch.from_numpy(np.load(f"{folder}/train_images.npy")).permute(0, 3, 1, 2).float().div(255)
    labels = torch.from_numpy(np.load(f"{folder}/train_labels.npy")).long()
    dataset = TensorDataset(images, labels)
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_size=batch_size, sampler=sampler, drop_last=True)
    model = DistributedDataParallel(ResNet44())
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    model.train()
    step = epoch = 0
    while step < warmup_steps + steps:
        sampler.set_epoch(epoch)
        epoch += 1
        for batch, targets in loader:
            if step == warmup_steps:
                start = time.perf_counter()
            loss = criterion(model(batch), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if step == warmup_steps + steps:
                break
    elapsed = time.perf_counter() - start
    if dist.get_rank() == 0:
        print(f"loss {loss.item():.3f}, images/s: {steps * batch_size * dist.get_world_size() / elapsed}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
