"""small_cnn for the PyTorch family."""

import torch
from torch import nn

from trainbench.models.small_cnn.parameters import CONVOLUTIONS


class SmallCnn(nn.Module):
    def __init__(self, in_channels: int, num_classes: int):
        super().__init__()
        for layer, width, stride in CONVOLUTIONS:
            self.add_module(layer, nn.Conv2d(in_channels, width, 3, stride=stride, padding=1, bias=True))
            in_channels = width
        self.dense = nn.Linear(in_channels, num_classes)

    def forward(self, x):
        for layer, _, _ in CONVOLUTIONS:
            x = torch.relu(getattr(self, layer)(x))
        return self.dense(x.mean(dim=(2, 3)))


def build(image_shape: tuple[int, int, int], num_classes: int) -> nn.Module:
    """A module from normalised images (batch, channels, height, width) to logits (batch, num_classes)."""
    return SmallCnn(image_shape[2], num_classes)
