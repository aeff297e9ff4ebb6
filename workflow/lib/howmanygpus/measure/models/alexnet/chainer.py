"""AlexNet for the Chainer family."""

from typing import Any

import chainer

from howmanygpus.measure.frameworks.chainer.layers.context import LayerContext
from howmanygpus.measure.frameworks.chainer.layers.conv import conv
from howmanygpus.measure.frameworks.chainer.layers.dense import dense
from howmanygpus.measure.frameworks.chainer.layers.dropout import dropout, image_keys
from howmanygpus.measure.frameworks.chainer.layers.flatten import flatten
from howmanygpus.measure.frameworks.chainer.layers.pooling import max_pool
from howmanygpus.measure.frameworks.chainer.layers.relu import relu
from howmanygpus.measure.models.alexnet.parameters import POOLING, POOLING_SIZE, lay_out


class AlexNet(chainer.Chain):
    """The keys of the images say which units are dropped."""

    def __init__(self, context: LayerContext, image_shape: tuple[int, int, int], num_classes: int, **options):
        super().__init__()
        layout = self._layout = lay_out(image_shape, **options)
        with self.init_scope():
            for each in layout.convolutions:
                sizes, strides = (each.in_channels, each.out_channels), {"stride": each.stride, "padding": each.padding}
                setattr(self, each.name, conv(context, *sizes, each.kernel, **strides, use_bias=True))
            for layer in layout.hidden:
                setattr(self, layer.dropout, dropout(context, layer.dropout, layer.in_features, rate=layout.rate))
                setattr(self, layer.name, dense(context, layer.in_features, layer.out_features))
            self.image_keys = image_keys(context, image_shape)
            self.dense = dense(context, layout.hidden[-1].out_features, num_classes)

    def forward(self, x: chainer.Variable, keys: Any = None) -> chainer.Variable:
        for each in self._layout.convolutions:
            x = relu(getattr(self, each.name)(x))
            x = max_pool(x, POOLING_SIZE, **POOLING) if each.pools else x
        x = flatten(x)
        for layer in self._layout.hidden:
            x = relu(getattr(self, layer.name)(getattr(self, layer.dropout)(x, keys)))
        return self.dense(x)


def build(image_shape: tuple[int, int, int], num_classes: int, context: LayerContext, **options) -> chainer.Chain:
    """Return a chain from normalised images (batch, channels, height, width) to logits. options: see parameters.py."""
    return AlexNet(context, image_shape, num_classes, **options)
