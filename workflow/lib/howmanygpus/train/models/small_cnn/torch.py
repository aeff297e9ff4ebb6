"""small_cnn for the PyTorch family."""

import torch
from torch import nn

from howmanygpus.train.models.small_cnn.parameters import CONVOLUTIONS


class SmallCnn(nn.Module):
    def __init__(self, in_channels: int, num_classes: int, layers):
        super().__init__()
        for layer, width, stride in CONVOLUTIONS:
            self.add_module(layer, layers.conv3x3(in_channels, width, stride, use_bias=True))
            in_channels = width
        self.dense = layers.dense(in_channels, num_classes)

    def forward(self, x):
        for layer, _, _ in CONVOLUTIONS:
            x = torch.relu(getattr(self, layer)(x))
        return self.dense(x.mean(dim=(2, 3)))


def build(image_shape: tuple[int, int, int], num_classes: int, layers) -> nn.Module:
    """A module from normalised images (batch, channels, height, width) to logits (batch, num_classes)."""
    return SmallCnn(image_shape[2], num_classes, layers)
