"""small_cnn for the Chainer family."""

import chainer

from howmanygpus.measure.frameworks.chainer.layers.context import LayerContext
from howmanygpus.measure.frameworks.chainer.layers.conv import conv
from howmanygpus.measure.frameworks.chainer.layers.dense import dense
from howmanygpus.measure.frameworks.chainer.layers.global_pooling import global_average_pool
from howmanygpus.measure.frameworks.chainer.layers.relu import relu
from howmanygpus.measure.models.small_cnn.parameters import CONVOLUTIONS


class SmallCnn(chainer.Chain):
    def __init__(self, context: LayerContext, in_channels: int, num_classes: int):
        super().__init__()
        with self.init_scope():
            for name, width, stride in CONVOLUTIONS:
                layer = conv(context, in_channels, width, 3, stride=stride, padding=1, use_bias=True)
                setattr(self, name, layer)
                in_channels = width
            self.dense = dense(context, in_channels, num_classes)

    def forward(self, x: chainer.Variable) -> chainer.Variable:
        for name, _, _ in CONVOLUTIONS:
            x = relu(getattr(self, name)(x))
        return self.dense(global_average_pool(x))


def build(image_shape: tuple[int, int, int], num_classes: int, context: LayerContext) -> chainer.Chain:
    """Return a chain from normalised images (batch, channels, height, width) to logits (batch, num_classes)."""
    return SmallCnn(context, image_shape[2], num_classes)
