"""AlexNet for the JAX family."""

import jax
from flax import nnx

from howmanygpus.measure.frameworks.flax.layers.context import LayerContext
from howmanygpus.measure.frameworks.flax.layers.conv import conv
from howmanygpus.measure.frameworks.flax.layers.dense import dense
from howmanygpus.measure.frameworks.flax.layers.dropout import dropout, image_keys
from howmanygpus.measure.frameworks.flax.layers.flatten import flatten
from howmanygpus.measure.frameworks.flax.layers.pooling import max_pool
from howmanygpus.measure.frameworks.flax.layers.relu import relu
from howmanygpus.measure.models.alexnet.parameters import POOLING, POOLING_SIZE, lay_out


class AlexNet(nnx.Module):
    """The keys of the images say which units are dropped."""

    def __init__(self, context: LayerContext, image_shape: tuple[int, int, int], num_classes: int, **options):
        layout = self._layout = lay_out(image_shape, **options)
        for each in layout.convolutions:
            sizes, strides = (each.in_channels, each.out_channels), {"stride": each.stride, "padding": each.padding}
            setattr(self, each.name, conv(context, *sizes, each.kernel, **strides, use_bias=True))
        for layer in layout.hidden:
            setattr(self, layer.dropout, dropout(context, layer.dropout, layer.in_features, rate=layout.rate))
            setattr(self, layer.name, dense(context, layer.in_features, layer.out_features))
        self.image_keys = image_keys(context, image_shape)
        self.dense = dense(context, layout.hidden[-1].out_features, num_classes)

    def __call__(self, x: jax.Array, keys: jax.Array | None = None) -> jax.Array:
        for each in self._layout.convolutions:
            x = relu(getattr(self, each.name)(x))
            x = max_pool(x, POOLING_SIZE, **POOLING) if each.pools else x
        x = flatten(x)
        for layer in self._layout.hidden:
            x = relu(getattr(self, layer.name)(getattr(self, layer.dropout)(x, keys)))
        return self.dense(x)


def build(image_shape: tuple[int, int, int], num_classes: int, context: LayerContext, **options) -> nnx.Module:
    """Return a module from normalised images (batch, height, width, channels) to logits. options: see parameters.py."""
    return AlexNet(context, image_shape, num_classes, **options)
