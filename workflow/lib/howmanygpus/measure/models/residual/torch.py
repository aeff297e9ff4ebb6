"""Residual networks for the PyTorch family."""

import torch
from torch import nn

from howmanygpus.measure.frameworks.torch.layers.batchnorm import batchnorm
from howmanygpus.measure.frameworks.torch.layers.context import LayerContext
from howmanygpus.measure.frameworks.torch.layers.conv import conv
from howmanygpus.measure.frameworks.torch.layers.dense import dense
from howmanygpus.measure.frameworks.torch.layers.global_pooling import global_average_pool
from howmanygpus.measure.frameworks.torch.layers.pooling import max_pool
from howmanygpus.measure.frameworks.torch.layers.relu import relu
from howmanygpus.measure.models.residual.layout import BATCHNORM, POOLING, Convolution, Layout


class ResidualNetwork(nn.Module):
    """Maps normalised images (batch, channels, height, width) to logits (batch, num_classes)."""

    def __init__(self, context: LayerContext, layout: Layout, num_classes: int):
        super().__init__()
        self._layout = layout
        for each in layout.convolutions:
            sizes, options = (each.in_channels, each.out_channels), {"stride": each.stride, "padding": each.padding}
            self.add_module(each.name, conv(context, *sizes, each.kernel, **options, use_bias=False))
            self.add_module(each.batchnorm, batchnorm(context, each.out_channels, **BATCHNORM))
        self.dense = dense(context, layout.out_channels, num_classes)

    def _conv_bn(self, x: torch.Tensor, convolution: Convolution) -> torch.Tensor:
        return getattr(self, convolution.batchnorm)(getattr(self, convolution.name)(x))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = max_pool(relu(self._conv_bn(x, self._layout.stem)), 3, **POOLING)
        for convolutions, shortcut in self._layout.blocks:
            skipped = self._conv_bn(x, shortcut) if shortcut else x
            for convolution in convolutions[:-1]:
                x = relu(self._conv_bn(x, convolution))
            x = relu(self._conv_bn(x, convolutions[-1]) + skipped)
        return self.dense(global_average_pool(x))
