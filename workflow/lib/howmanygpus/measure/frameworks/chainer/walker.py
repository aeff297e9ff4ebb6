"""Builds networks of the Chainer family."""

from collections.abc import Callable
from typing import Any

import chainer

from howmanygpus.measure.frameworks.chainer.layers.context import LayerContext
from howmanygpus.measure.models.layout import Branches, Chain, Layer, Layout, NamedLayer, Node, Sum, load_function
from howmanygpus.measure.models.networks import find_build, lay_out

Step = Callable[[chainer.Chain, chainer.Variable, Any], chainer.Variable]
"""
From a network, the inputs of a node and the keys of the images to the node's outputs.

Layers are found in the network by name, as in the other families.
"""


def resolve(node: Node) -> Step:
    """Return the function that computes a node, so that a forward pass looks at no layout."""
    if isinstance(node, Chain):
        return resolve_chain(node)
    if isinstance(node, Sum):
        return resolve_sum(node)
    if isinstance(node, Branches):
        branches, join = [resolve(branch) for branch in node.branches], load_function("chainer", node)
        return lambda network, x, keys: join([branch(network, x, keys) for branch in branches])
    assert isinstance(node, Layer)
    return resolve_layer(node)


def resolve_chain(node: Chain) -> Step:
    steps = [resolve(part) for part in node.parts]

    def compute(network: chainer.Chain, x: chainer.Variable, keys: Any) -> chainer.Variable:
        for step in steps:
            x = step(network, x, keys)
        return x

    return compute


def resolve_sum(node: Sum) -> Step:
    body, shortcut = resolve(node.body), resolve(node.shortcut)

    def compute(network: chainer.Chain, x: chainer.Variable, keys: Any) -> chainer.Variable:
        skipped = shortcut(network, x, keys)
        return body(network, x, keys) + skipped

    return compute


def resolve_layer(layer: Layer) -> Step:
    if not isinstance(layer, NamedLayer):
        function, arguments = load_function("chainer", layer), layer.arguments
        return lambda network, x, keys: function(x, **arguments)
    name = layer.name
    if layer.TAKES_KEYS:
        return lambda network, x, keys: getattr(network, name)(x, keys)
    return lambda network, x, keys: getattr(network, name)(x)


class LaidOutNetwork(chainer.Chain):
    """Maps normalised images (batch, channels, height, width) to logits (batch, num_classes).

    keys: keys of the images, by which units are dropped in training.
    """

    def __init__(self, layout: Layout, image_shape: tuple[int, int, int], context: LayerContext):
        super().__init__()
        with self.init_scope():
            for layer, shape in layout.list_layers(image_shape):
                function = load_function("chainer", layer)
                setattr(self, layer.name, function(context, **layer.sizes(shape), **layer.arguments))
                if layer.TAKES_KEYS and not hasattr(self, "image_keys"):
                    self.image_keys = load_function("chainer", layer, "image_keys")(context, image_shape)
        self._compute = resolve(layout.body)

    def forward(self, x: chainer.Variable, keys: Any = None) -> chainer.Variable:
        return self._compute(self, x, keys)


def build(
    model: str, image_shape: tuple[int, int, int], num_classes: int, context: LayerContext, **options
) -> chainer.Chain:
    """Return a chain from normalised images to logits (batch, num_classes). image_shape: (height, width, channels)."""
    if own := find_build(model, "chainer"):
        return own(image_shape, num_classes, context, **options)
    return LaidOutNetwork(lay_out(model, num_classes, **options), image_shape, context)
