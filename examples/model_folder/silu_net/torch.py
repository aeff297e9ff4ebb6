"""silu_net in PyTorch: layers of the workflow, and an activation of the framework's own."""

import torch
from torch import nn

from howmanygpus.measure.frameworks.torch.layers.batchnorm import batchnorm
from howmanygpus.measure.frameworks.torch.layers.context import LayerContext
from howmanygpus.measure.frameworks.torch.layers.conv import conv
from howmanygpus.measure.frameworks.torch.layers.dense import dense
from howmanygpus.measure.frameworks.torch.layers.global_pooling import global_average_pool


class SiluNet(nn.Module):
    def __init__(self, context: LayerContext, channels: int, num_classes: int, width: int):
        super().__init__()
        self.first = conv(context, channels, width, 3, stride=1, padding=1, use_bias=False)
        self.first_norm = batchnorm(context, width, epsilon=1e-5, momentum=0.9)
        self.second = conv(context, width, width, 3, stride=2, padding=1, use_bias=False)
        self.second_norm = batchnorm(context, width, epsilon=1e-5, momentum=0.9)
        self.dense = dense(context, width, num_classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = nn.functional.silu(self.first_norm(self.first(x)))
        x = nn.functional.silu(self.second_norm(self.second(x)))
        return self.dense(global_average_pool(x))


def build(image_shape, num_classes: int, context: LayerContext, width: int) -> nn.Module:
    """A module from normalised images (batch, channels, height, width) to logits (batch, num_classes)."""
    return SiluNet(context, image_shape[2], num_classes, width)
