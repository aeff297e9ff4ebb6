"""small_cnn for the JAX family."""

import jax
from flax import nnx

from howmanygpus.measure.frameworks.flax.layers.context import LayerContext
from howmanygpus.measure.frameworks.flax.layers.conv import conv
from howmanygpus.measure.frameworks.flax.layers.dense import dense
from howmanygpus.measure.frameworks.flax.layers.global_pooling import global_average_pool
from howmanygpus.measure.frameworks.flax.layers.relu import relu
from howmanygpus.measure.models.small_cnn.parameters import CONVOLUTIONS


class SmallCnn(nnx.Module):
    def __init__(self, context: LayerContext, in_channels: int, num_classes: int):
        for name, width, stride in CONVOLUTIONS:
            layer = conv(context, in_channels, width, 3, stride=stride, padding=1, use_bias=True)
            setattr(self, name, layer)
            in_channels = width
        self.dense = dense(context, in_channels, num_classes)

    def __call__(self, x: jax.Array) -> jax.Array:
        for name, _, _ in CONVOLUTIONS:
            x = relu(getattr(self, name)(x))
        return self.dense(global_average_pool(x))


def build(image_shape: tuple[int, int, int], num_classes: int, context: LayerContext) -> nnx.Module:
    """Return a module from normalised images (batch, height, width, channels) to logits (batch, num_classes)."""
    return SmallCnn(context, image_shape[2], num_classes)
