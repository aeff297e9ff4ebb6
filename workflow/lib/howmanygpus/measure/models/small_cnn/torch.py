"""small_cnn for the PyTorch family."""

import torch
from torch import nn

from howmanygpus.measure.frameworks.torch.layers.context import LayerContext
from howmanygpus.measure.frameworks.torch.layers.conv import conv
from howmanygpus.measure.frameworks.torch.layers.dense import dense
from howmanygpus.measure.frameworks.torch.layers.global_pooling import global_average_pool
from howmanygpus.measure.frameworks.torch.layers.relu import relu
from howmanygpus.measure.models.small_cnn.parameters import CONVOLUTIONS


class SmallCnn(nn.Module):
    def __init__(self, context: LayerContext, in_channels: int, num_classes: int):
        super().__init__()
        for name, width, stride in CONVOLUTIONS:
            self.add_module(name, conv(context, in_channels, width, 3, stride=stride, padding=1, use_bias=True))
            in_channels = width
        self.dense = dense(context, in_channels, num_classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for name, _, _ in CONVOLUTIONS:
            x = relu(getattr(self, name)(x))
        return self.dense(global_average_pool(x))


def build(image_shape: tuple[int, int, int], num_classes: int, context: LayerContext) -> nn.Module:
    """Return a module from normalised images (batch, channels, height, width) to logits (batch, num_classes)."""
    return SmallCnn(context, image_shape[2], num_classes)
