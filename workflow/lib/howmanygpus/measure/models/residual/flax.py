"""Residual networks for the JAX family."""

import jax
from flax import nnx

from howmanygpus.measure.frameworks.flax.layers.batchnorm import batchnorm
from howmanygpus.measure.frameworks.flax.layers.context import LayerContext
from howmanygpus.measure.frameworks.flax.layers.conv import conv
from howmanygpus.measure.frameworks.flax.layers.dense import dense
from howmanygpus.measure.frameworks.flax.layers.global_pooling import global_average_pool
from howmanygpus.measure.frameworks.flax.layers.pooling import max_pool
from howmanygpus.measure.frameworks.flax.layers.relu import relu
from howmanygpus.measure.models.residual.layout import BATCHNORM, POOLING, Convolution, Layout


class ResidualNetwork(nnx.Module):
    """Maps normalised images (batch, height, width, channels) to logits (batch, num_classes)."""

    def __init__(self, context: LayerContext, layout: Layout, num_classes: int):
        self._layout = layout
        for each in layout.convolutions:
            sizes, options = (each.in_channels, each.out_channels), {"stride": each.stride, "padding": each.padding}
            setattr(self, each.name, conv(context, *sizes, each.kernel, **options, use_bias=False))
            setattr(self, each.batchnorm, batchnorm(context, each.out_channels, **BATCHNORM))
        self.dense = dense(context, layout.out_channels, num_classes)

    def _conv_bn(self, x: jax.Array, convolution: Convolution) -> jax.Array:
        return getattr(self, convolution.batchnorm)(getattr(self, convolution.name)(x))

    def __call__(self, x: jax.Array) -> jax.Array:
        x = max_pool(relu(self._conv_bn(x, self._layout.stem)), 3, **POOLING)
        for convolutions, shortcut in self._layout.blocks:
            skipped = self._conv_bn(x, shortcut) if shortcut else x
            for convolution in convolutions[:-1]:
                x = relu(self._conv_bn(x, convolution))
            x = relu(self._conv_bn(x, convolutions[-1]) + skipped)
        return self.dense(global_average_pool(x))
