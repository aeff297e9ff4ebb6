"""silu_net of examples/model_folder/ in Chainer: the names of the attributes are those of parameters.py."""

import chainer
import chainer.functions as F

from howmanygpus.measure.frameworks.chainer.layers.batchnorm import batchnorm
from howmanygpus.measure.frameworks.chainer.layers.context import LayerContext
from howmanygpus.measure.frameworks.chainer.layers.conv import conv
from howmanygpus.measure.frameworks.chainer.layers.dense import dense
from howmanygpus.measure.frameworks.chainer.layers.global_pooling import global_average_pool


class SiluNet(chainer.Chain):
    def __init__(self, context: LayerContext, channels: int, num_classes: int, width: int):
        super().__init__()
        with self.init_scope():
            self.first = conv(context, channels, width, 3, stride=1, padding=1, use_bias=False)
            self.first_norm = batchnorm(context, width, epsilon=1e-5, momentum=0.9)
            self.second = conv(context, width, width, 3, stride=2, padding=1, use_bias=False)
            self.second_norm = batchnorm(context, width, epsilon=1e-5, momentum=0.9)
            self.dense = dense(context, width, num_classes)

    def forward(self, x: chainer.Variable) -> chainer.Variable:
        for layer, norm in ((self.first, self.first_norm), (self.second, self.second_norm)):
            x = norm(layer(x))
            x = x * F.sigmoid(x)
        return self.dense(global_average_pool(x))


def build(image_shape, num_classes: int, context: LayerContext, width: int) -> chainer.Chain:
    """A chain from normalised images (batch, channels, height, width) to logits (batch, num_classes)."""
    return SiluNet(context, image_shape[2], num_classes, width)
