"""ResNet-44 for the PyTorch family."""

import torch
from torch import nn
from torch.nn import functional as F

from howmanygpus.train.models.resnet44.layers import create_layers
from howmanygpus.train.models.resnet44.parameters import blocks


class ResNet44(nn.Module):
    def __init__(self, in_channels: int, num_classes: int, layers):
        super().__init__()
        for name, layer in create_layers(layers, in_channels, num_classes):
            self.add_module(name, layer)

    def _conv_bn(self, x, prefix: str, index: int):
        return getattr(self, f"{prefix}_bn{index}")(getattr(self, f"{prefix}_conv{index}")(x))

    def forward(self, x):
        x = torch.relu(self.stem_bn(self.stem_conv(x)))
        for name, width, stride in blocks():
            shortcut = x
            if stride > 1:
                shortcut = F.pad(x[:, :, ::stride, ::stride], (0, 0, 0, 0, 0, width - x.shape[1]))
            x = torch.relu(self._conv_bn(x, name, 1))
            x = torch.relu(self._conv_bn(x, name, 2) + shortcut)
        return self.dense(x.mean(dim=(2, 3)))


def build(image_shape: tuple[int, int, int], num_classes: int, layers) -> nn.Module:
    """A module from normalised images (batch, channels, height, width) to logits (batch, num_classes)."""
    return ResNet44(image_shape[2], num_classes, layers)
