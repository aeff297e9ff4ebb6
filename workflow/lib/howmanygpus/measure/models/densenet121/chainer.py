"""DenseNet-121 for the Chainer family."""

import chainer

from howmanygpus.measure.frameworks.chainer.layers.batchnorm import batchnorm
from howmanygpus.measure.frameworks.chainer.layers.concatenation import concatenate
from howmanygpus.measure.frameworks.chainer.layers.context import LayerContext
from howmanygpus.measure.frameworks.chainer.layers.conv import conv
from howmanygpus.measure.frameworks.chainer.layers.dense import dense
from howmanygpus.measure.frameworks.chainer.layers.global_pooling import global_average_pool
from howmanygpus.measure.frameworks.chainer.layers.pooling import average_pool, max_pool
from howmanygpus.measure.frameworks.chainer.layers.relu import relu
from howmanygpus.measure.models.densenet121.parameters import (
    BATCHNORM,
    STEM_POOLING,
    TRANSITION_POOLING,
    Convolution,
    lay_out,
)


class DenseNet(chainer.Chain):
    def __init__(self, context: LayerContext, image_channels: int, num_classes: int, **options):
        super().__init__()
        layout = self._layout = lay_out(image_channels, **options)
        with self.init_scope():
            for each in layout.convolutions:
                sizes, strides = (each.in_channels, each.out_channels), {"stride": each.stride, "padding": each.padding}
                setattr(self, each.name, conv(context, *sizes, each.kernel, **strides, use_bias=False))
            for name, channels in layout.batchnorms:
                setattr(self, name, batchnorm(context, channels, **BATCHNORM))
            self.dense = dense(context, layout.out_channels, num_classes)

    def _bn_relu_conv(self, x: chainer.Variable, convolution: Convolution) -> chainer.Variable:
        return getattr(self, convolution.name)(relu(getattr(self, convolution.batchnorm)(x)))

    def forward(self, x: chainer.Variable) -> chainer.Variable:
        x = max_pool(relu(self.stem_bn(self.stem_conv(x))), 3, **STEM_POOLING)
        for layers, transition in self._layout.blocks:
            for first, second in layers:
                x = concatenate([x, self._bn_relu_conv(self._bn_relu_conv(x, first), second)])
            if transition:
                x = average_pool(self._bn_relu_conv(x, transition), 2, **TRANSITION_POOLING)
        return self.dense(global_average_pool(relu(self.final_bn(x))))


def build(image_shape: tuple[int, int, int], num_classes: int, context: LayerContext, **options) -> chainer.Chain:
    """Return a chain from normalised images (batch, channels, height, width) to logits. options: see parameters.py."""
    return DenseNet(context, image_shape[2], num_classes, **options)
