"""silu_net in flax: the names of the attributes are those of parameters.py."""

import jax
from flax import nnx

from howmanygpus.measure.frameworks.flax.layers.batchnorm import batchnorm
from howmanygpus.measure.frameworks.flax.layers.context import LayerContext
from howmanygpus.measure.frameworks.flax.layers.conv import conv
from howmanygpus.measure.frameworks.flax.layers.dense import dense
from howmanygpus.measure.frameworks.flax.layers.global_pooling import global_average_pool


class SiluNet(nnx.Module):
    def __init__(self, context: LayerContext, channels: int, num_classes: int, width: int):
        self.first = conv(context, channels, width, 3, stride=1, padding=1, use_bias=False)
        self.first_norm = batchnorm(context, width, epsilon=1e-5, momentum=0.9)
        self.second = conv(context, width, width, 3, stride=2, padding=1, use_bias=False)
        self.second_norm = batchnorm(context, width, epsilon=1e-5, momentum=0.9)
        self.dense = dense(context, width, num_classes)

    def __call__(self, x: jax.Array) -> jax.Array:
        x = jax.nn.silu(self.first_norm(self.first(x)))
        x = jax.nn.silu(self.second_norm(self.second(x)))
        return self.dense(global_average_pool(x))


def build(image_shape, num_classes: int, context: LayerContext, width: int) -> nnx.Module:
    """A module from normalised images (batch, height, width, channels) to logits (batch, num_classes)."""
    return SiluNet(context, image_shape[2], num_classes, width)
