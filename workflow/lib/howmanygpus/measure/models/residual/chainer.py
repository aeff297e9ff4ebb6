"""Residual networks for the Chainer family."""

import chainer

from howmanygpus.measure.frameworks.chainer.layers.batchnorm import batchnorm
from howmanygpus.measure.frameworks.chainer.layers.context import LayerContext
from howmanygpus.measure.frameworks.chainer.layers.conv import conv
from howmanygpus.measure.frameworks.chainer.layers.dense import dense
from howmanygpus.measure.frameworks.chainer.layers.global_pooling import global_average_pool
from howmanygpus.measure.frameworks.chainer.layers.pooling import max_pool
from howmanygpus.measure.frameworks.chainer.layers.relu import relu
from howmanygpus.measure.models.residual.layout import BATCHNORM, POOLING, Convolution, Layout


class ResidualNetwork(chainer.Chain):
    """Maps normalised images (batch, channels, height, width) to logits (batch, num_classes)."""

    def __init__(self, context: LayerContext, layout: Layout, num_classes: int):
        super().__init__()
        self._layout = layout
        with self.init_scope():
            for each in layout.convolutions:
                sizes, options = (each.in_channels, each.out_channels), {"stride": each.stride, "padding": each.padding}
                setattr(self, each.name, conv(context, *sizes, each.kernel, **options, use_bias=False))
                setattr(self, each.batchnorm, batchnorm(context, each.out_channels, **BATCHNORM))
            self.dense = dense(context, layout.out_channels, num_classes)

    def _conv_bn(self, x: chainer.Variable, convolution: Convolution) -> chainer.Variable:
        return getattr(self, convolution.batchnorm)(getattr(self, convolution.name)(x))

    def forward(self, x: chainer.Variable) -> chainer.Variable:
        x = max_pool(relu(self._conv_bn(x, self._layout.stem)), 3, **POOLING)
        for convolutions, shortcut in self._layout.blocks:
            skipped = self._conv_bn(x, shortcut) if shortcut else x
            for convolution in convolutions[:-1]:
                x = relu(self._conv_bn(x, convolution))
            x = relu(self._conv_bn(x, convolutions[-1]) + skipped)
        return self.dense(global_average_pool(x))
