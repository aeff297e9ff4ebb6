"""Builds networks of the JAX family."""

import jax
from flax import nnx

from howmanygpus.measure.frameworks.flax.layers.context import LayerContext
from howmanygpus.measure.frameworks.forward_pass import resolve
from howmanygpus.measure.models.layout import Layout, load_function
from howmanygpus.measure.models.networks import find_build, lay_out


class LaidOutNetwork(nnx.Module):
    """Maps normalised images (batch, height, width, channels) to logits (batch, num_classes).

    keys: keys of the images, by which units are dropped in training.
    """

    def __init__(self, layout: Layout, image_shape: tuple[int, int, int], context: LayerContext):
        for layer, shape in layout.list_layers(image_shape):
            function = load_function("flax", layer)
            setattr(self, layer.name, function(context, **layer.sizes(shape), **layer.arguments))
            if layer.TAKES_KEYS and not hasattr(self, "image_keys"):
                self.image_keys = load_function("flax", layer, "image_keys")(context, image_shape)
        self._compute = resolve("flax", layout.body)

    def __call__(self, x: jax.Array, keys: jax.Array | None = None) -> jax.Array:
        return self._compute(self, x, keys)


def build(
    model: str, image_shape: tuple[int, int, int], num_classes: int, context: LayerContext, **options
) -> nnx.Module:
    """Return a module from normalised images to logits (batch, num_classes). image_shape: (height, width, channels)."""
    if own := find_build(model, "flax"):
        return own(image_shape, num_classes, context, **options)
    return LaidOutNetwork(lay_out(model, num_classes, **options), image_shape, context)
