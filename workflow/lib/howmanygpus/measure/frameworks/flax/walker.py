"""Builds networks of the JAX family."""

from collections.abc import Callable

import jax
from flax import nnx

from howmanygpus.measure.frameworks.flax.layers.context import LayerContext
from howmanygpus.measure.models.layout import Branches, Chain, Layer, Layout, NamedLayer, Node, Sum, load_function
from howmanygpus.measure.models.networks import find_build, lay_out

Step = Callable[[nnx.Module, jax.Array, jax.Array | None], jax.Array]
"""
From a network, the inputs of a node and the keys of the images to the node's outputs.

Layers are found in the network by name, because nnx takes networks apart and puts others together. It also compares
what is no array, such as these functions: they are the same as long as it is the same network.
"""


def resolve(node: Node) -> Step:
    """Return the function that computes a node, so that a forward pass looks at no layout."""
    if isinstance(node, Chain):
        return resolve_chain(node)
    if isinstance(node, Sum):
        return resolve_sum(node)
    if isinstance(node, Branches):
        branches, join = [resolve(branch) for branch in node.branches], load_function("flax", node)
        return lambda network, x, keys: join([branch(network, x, keys) for branch in branches])
    assert isinstance(node, Layer)
    return resolve_layer(node)


def resolve_chain(node: Chain) -> Step:
    steps = [resolve(part) for part in node.parts]

    def compute(network: nnx.Module, x: jax.Array, keys: jax.Array | None) -> jax.Array:
        for step in steps:
            x = step(network, x, keys)
        return x

    return compute


def resolve_sum(node: Sum) -> Step:
    body, shortcut = resolve(node.body), resolve(node.shortcut)

    def compute(network: nnx.Module, x: jax.Array, keys: jax.Array | None) -> jax.Array:
        skipped = shortcut(network, x, keys)
        return body(network, x, keys) + skipped

    return compute


def resolve_layer(layer: Layer) -> Step:
    if not isinstance(layer, NamedLayer):
        function, arguments = load_function("flax", layer), layer.arguments
        return lambda network, x, keys: function(x, **arguments)
    name = layer.name
    if layer.TAKES_KEYS:
        return lambda network, x, keys: getattr(network, name)(x, keys)
    return lambda network, x, keys: getattr(network, name)(x)


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
        self._compute = resolve(layout.body)

    def __call__(self, x: jax.Array, keys: jax.Array | None = None) -> jax.Array:
        return self._compute(self, x, keys)


def build(
    model: str, image_shape: tuple[int, int, int], num_classes: int, context: LayerContext, **options
) -> nnx.Module:
    """Return a module from normalised images to logits (batch, num_classes). image_shape: (height, width, channels)."""
    if own := find_build(model, "flax"):
        return own(image_shape, num_classes, context, **options)
    return LaidOutNetwork(lay_out(model, num_classes, **options), image_shape, context)
