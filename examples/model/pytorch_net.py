"""A small convolutional network in plain PyTorch, as a model file of the workflow; docs/own_model.md explains it."""

import torch
from torch import nn


class Block(nn.Module):
    """Two convolutions with BatchNorm around a shortcut."""

    def __init__(self, channels: int):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x + self.layers(x))


def build(image_shape: tuple[int, int, int], num_classes: int, width: int = 16, depth: int = 2) -> nn.Module:
    """From normalised images (batch, channels, height, width) to logits. image_shape: height, width, channels."""
    return nn.Sequential(
        nn.Conv2d(image_shape[2], width, 3, padding=1),
        *[Block(width) for _ in range(depth)],
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(width, num_classes),
    )
