"""A network with PyTorch's own dropout, and with random numbers of its own, for tests of the parity gate."""

import numpy as np
import torch
from torch import nn


class Wiring(nn.Module):
    """Permutes its inputs as numpy has drawn, which no array tells."""

    def __init__(self, width: int):
        super().__init__()
        self.order = np.random.permutation(width).tolist()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[:, self.order]


class Noise(nn.Module):
    """Multiplies by uniform random numbers with the mean 1."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * (0.5 + torch.rand(x.shape, device=x.device)) if self.training else x


def build(image_shape: tuple[int, int, int], num_classes: int, width: int = 16, depth: int = 2) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(image_shape[2], width, 3),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        Wiring(4 * width),
        Noise(),
        nn.Linear(4 * width, 16 * width),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(16 * width, num_classes),
    )
