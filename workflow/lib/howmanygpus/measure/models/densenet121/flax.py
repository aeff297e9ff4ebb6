"""DenseNet-121 for the JAX family."""

import jax
from flax import nnx

from howmanygpus.measure.frameworks.flax.layers.batchnorm import batchnorm
from howmanygpus.measure.frameworks.flax.layers.concatenation import concatenate
from howmanygpus.measure.frameworks.flax.layers.context import LayerContext
from howmanygpus.measure.frameworks.flax.layers.conv import conv
from howmanygpus.measure.frameworks.flax.layers.dense import dense
from howmanygpus.measure.frameworks.flax.layers.global_pooling import global_average_pool
from howmanygpus.measure.frameworks.flax.layers.pooling import average_pool, max_pool
from howmanygpus.measure.frameworks.flax.layers.relu import relu
from howmanygpus.measure.models.densenet121.parameters import (
    BATCHNORM,
    STEM_POOLING,
    TRANSITION_POOLING,
    Convolution,
    lay_out,
)


class DenseNet(nnx.Module):
    def __init__(self, context: LayerContext, image_channels: int, num_classes: int, **options):
        layout = self._layout = lay_out(image_channels, **options)
        for each in layout.convolutions:
            sizes, strides = (each.in_channels, each.out_channels), {"stride": each.stride, "padding": each.padding}
            setattr(self, each.name, conv(context, *sizes, each.kernel, **strides, use_bias=False))
        for name, channels in layout.batchnorms:
            setattr(self, name, batchnorm(context, channels, **BATCHNORM))
        self.dense = dense(context, layout.out_channels, num_classes)

    def _bn_relu_conv(self, x: jax.Array, convolution: Convolution) -> jax.Array:
        return getattr(self, convolution.name)(relu(getattr(self, convolution.batchnorm)(x)))

    def __call__(self, x: jax.Array) -> jax.Array:
        x = max_pool(relu(self.stem_bn(self.stem_conv(x))), 3, **STEM_POOLING)
        for layers, transition in self._layout.blocks:
            for first, second in layers:
                x = concatenate([x, self._bn_relu_conv(self._bn_relu_conv(x, first), second)])
            if transition:
                x = average_pool(self._bn_relu_conv(x, transition), 2, **TRANSITION_POOLING)
        return self.dense(global_average_pool(relu(self.final_bn(x))))


def build(image_shape: tuple[int, int, int], num_classes: int, context: LayerContext, **options) -> nnx.Module:
    """Return a module from normalised images (batch, height, width, channels) to logits. options: see parameters.py."""
    return DenseNet(context, image_shape[2], num_classes, **options)
