"""A network that is right in float32 and fails under autocast, with odd buffers, for tests of the parity gate."""

import random

import numpy as np
import torch
from torch import nn


class OddNet(nn.Module):
    """Rows of the image are tokens, of which each attends to itself and those above it.

    A mask of -inf, an expanded buffer, statistics written out, and a wiring that numpy and Python draw.
    """

    def __init__(self, image_shape: tuple[int, int, int], num_classes: int, width: int):
        super().__init__()
        height, breadth, channels = image_shape
        self.embed, self.attend = nn.Linear(breadth * channels, width), nn.Linear(width, 3 * width)
        self.last = nn.Linear(width, num_classes)
        self.register_buffer("mask", torch.triu(torch.full((height, height), float("-inf")), diagonal=1))
        self.register_buffer("gain", torch.full((1,), 0.5).expand(width))
        self.register_buffer("mean", torch.zeros(width))
        self.wiring = np.random.permutation(width).tolist()
        random.shuffle(self.wiring)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = self.embed(x.permute(0, 2, 3, 1).flatten(2))
        query, key, value = self.attend(rows).chunk(3, dim=-1)
        weights = (query @ key.transpose(1, 2) + self.mask).softmax(-1)
        x = (rows + weights @ value).mean(dim=1)[:, self.wiring]
        if self.training:
            with torch.no_grad():
                # Under autocast, x has another format, which lerp_ refuses.
                self.mean.lerp_(x.mean(dim=0), 0.1)
        return self.last(torch.relu(x if self.training else x - self.mean) * self.gain)


def build(image_shape: tuple[int, int, int], num_classes: int, width: int = 16, depth: int = 2) -> nn.Module:
    return OddNet(image_shape, num_classes, width)
