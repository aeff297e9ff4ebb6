"""Inception v3 for the PyTorch family."""

from functools import reduce

import torch
from torch import nn

from howmanygpus.measure.frameworks.torch.layers.batchnorm import batchnorm
from howmanygpus.measure.frameworks.torch.layers.concatenation import concatenate
from howmanygpus.measure.frameworks.torch.layers.context import LayerContext
from howmanygpus.measure.frameworks.torch.layers.conv import conv
from howmanygpus.measure.frameworks.torch.layers.dense import dense
from howmanygpus.measure.frameworks.torch.layers.dropout import dropout, image_keys
from howmanygpus.measure.frameworks.torch.layers.global_pooling import global_average_pool
from howmanygpus.measure.frameworks.torch.layers.pooling import average_pool, max_pool
from howmanygpus.measure.frameworks.torch.layers.relu import relu
from howmanygpus.measure.models.inception_v3.layout import BATCHNORM, Convolution, Split, Step, lay_out
from howmanygpus.measure.models.inception_v3.parameters import OPTIONS


class InceptionV3(nn.Module):
    """The keys of the images say which units are dropped."""

    def __init__(self, context: LayerContext, image_shape: tuple[int, int, int], num_classes: int, **options):
        super().__init__()
        layout = self._layout = lay_out(image_shape[2], OPTIONS, options)
        for each in layout.convolutions:
            sizes = (each.in_channels, each.out_channels, each.kernel)
            layer = conv(context, *sizes, stride=each.stride, padding=each.padding, use_bias=False)
            self.add_module(each.name, layer)
            self.add_module(each.batchnorm, batchnorm(context, each.out_channels, **BATCHNORM))
        self.dropout = dropout(context, "dropout", layout.out_channels, rate=layout.rate)
        self.image_keys = image_keys(context, image_shape)
        self.dense = dense(context, layout.out_channels, num_classes)

    def forward(self, x: torch.Tensor, keys: torch.Tensor | None = None) -> torch.Tensor:
        for branches in self._layout.blocks:
            outputs = [reduce(self._take, branch, x) for branch in branches]
            x = concatenate(outputs) if len(outputs) > 1 else outputs[0]
        return self.dense(self.dropout(global_average_pool(x), keys))

    def _take(self, x: torch.Tensor, step: Step) -> torch.Tensor:
        if isinstance(step, Split):
            return concatenate([self._take(x, each) for each in step.convolutions])
        if isinstance(step, Convolution):
            return relu(getattr(self, step.batchnorm)(getattr(self, step.name)(x)))
        pool = max_pool if step.takes_maximum else average_pool
        return pool(x, 3, stride=step.stride, padding=step.padding)


def build(image_shape: tuple[int, int, int], num_classes: int, context: LayerContext, **options) -> nn.Module:
    """Return a module from normalised images (batch, channels, height, width) to logits. options: see parameters.py."""
    return InceptionV3(context, image_shape, num_classes, **options)
