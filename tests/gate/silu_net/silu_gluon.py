"""silu_net of examples/model_folder/ in MXNet Gluon: the names of the attributes are those of parameters.py."""

from mxnet.gluon import nn

from howmanygpus.measure.frameworks.gluon.layers.batchnorm import batchnorm
from howmanygpus.measure.frameworks.gluon.layers.context import LayerContext
from howmanygpus.measure.frameworks.gluon.layers.conv import conv
from howmanygpus.measure.frameworks.gluon.layers.dense import dense
from howmanygpus.measure.frameworks.gluon.layers.global_pooling import global_average_pool


class SiluNet(nn.HybridBlock):
    def __init__(self, context: LayerContext, channels: int, num_classes: int, width: int):
        super().__init__()
        with self.name_scope():
            self.first = conv(context, channels, width, 3, stride=1, padding=1, use_bias=False)
            self.first_norm = batchnorm(context, width, epsilon=1e-5, momentum=0.9)
            self.second = conv(context, width, width, 3, stride=2, padding=1, use_bias=False)
            self.second_norm = batchnorm(context, width, epsilon=1e-5, momentum=0.9)
            self.dense = dense(context, width, num_classes)

    def hybrid_forward(self, F, x):
        for layer, norm in ((self.first, self.first_norm), (self.second, self.second_norm)):
            x = norm(layer(x))
            x = x * F.sigmoid(x)
        return self.dense(global_average_pool(x))


def build(image_shape, num_classes: int, context: LayerContext, width: int) -> nn.HybridBlock:
    """A block from normalised images (batch, channels, height, width) to logits (batch, num_classes)."""
    return SiluNet(context, image_shape[2], num_classes, width)
