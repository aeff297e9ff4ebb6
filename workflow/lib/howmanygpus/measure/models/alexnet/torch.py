"""AlexNet for the PyTorch family."""

import torch
from torch import nn

from howmanygpus.measure.frameworks.torch.layers.context import LayerContext
from howmanygpus.measure.frameworks.torch.layers.conv import conv
from howmanygpus.measure.frameworks.torch.layers.dense import dense
from howmanygpus.measure.frameworks.torch.layers.dropout import dropout, image_keys
from howmanygpus.measure.frameworks.torch.layers.flatten import flatten
from howmanygpus.measure.frameworks.torch.layers.pooling import max_pool
from howmanygpus.measure.frameworks.torch.layers.relu import relu
from howmanygpus.measure.models.alexnet.parameters import POOLING, POOLING_SIZE, lay_out


class AlexNet(nn.Module):
    """The keys of the images say which units are dropped."""

    def __init__(self, context: LayerContext, image_shape: tuple[int, int, int], num_classes: int, **options):
        super().__init__()
        layout = self._layout = lay_out(image_shape, **options)
        for each in layout.convolutions:
            sizes, strides = (each.in_channels, each.out_channels), {"stride": each.stride, "padding": each.padding}
            self.add_module(each.name, conv(context, *sizes, each.kernel, **strides, use_bias=True))
        for layer in layout.hidden:
            self.add_module(layer.dropout, dropout(context, layer.dropout, layer.in_features, rate=layout.rate))
            self.add_module(layer.name, dense(context, layer.in_features, layer.out_features))
        self.image_keys = image_keys(context, image_shape)
        self.dense = dense(context, layout.hidden[-1].out_features, num_classes)

    def forward(self, x: torch.Tensor, keys: torch.Tensor | None = None) -> torch.Tensor:
        for each in self._layout.convolutions:
            x = relu(getattr(self, each.name)(x))
            x = max_pool(x, POOLING_SIZE, **POOLING) if each.pools else x
        x = flatten(x)
        for layer in self._layout.hidden:
            x = relu(getattr(self, layer.name)(getattr(self, layer.dropout)(x, keys)))
        return self.dense(x)


def build(image_shape: tuple[int, int, int], num_classes: int, context: LayerContext, **options) -> nn.Module:
    """Return a module from normalised images (batch, channels, height, width) to logits. options: see parameters.py."""
    return AlexNet(context, image_shape, num_classes, **options)
