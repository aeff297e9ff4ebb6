"""
Forward passes of networks from their layouts, in flax, Gluon and Chainer.

The walker of PyTorch, from which the parity gate's reference is computed, has its own, so that a fault here is seen.
"""

from collections.abc import Callable
from typing import Any

from howmanygpus.measure.models.layout import Branches, Chain, Layer, NamedLayer, Node, Sum, load_function

Step = Callable[[Any, Any, Any], Any]
"""
From a network, the inputs of a node and the keys of the images to the node's outputs.

Layers are found in the network by name, because nnx takes networks apart and puts others together. It also compares
what is no array, such as these functions: they are the same as long as it is the same network.
"""


def resolve(family: str, node: Node) -> Step:
    """Return the function that computes a node, so that a forward pass looks at no layout."""
    if isinstance(node, Chain):
        return _resolve_chain([resolve(family, part) for part in node.parts])
    if isinstance(node, Sum):
        return _resolve_sum(resolve(family, node.body), resolve(family, node.shortcut))
    if isinstance(node, Branches):
        branches, join = [resolve(family, branch) for branch in node.branches], load_function(family, node)
        return lambda network, x, keys: join([branch(network, x, keys) for branch in branches])
    assert isinstance(node, Layer)
    return _resolve_layer(family, node)


def _resolve_chain(steps: list[Step]) -> Step:
    def compute(network: Any, x: Any, keys: Any) -> Any:
        for step in steps:
            x = step(network, x, keys)
        return x

    return compute


def _resolve_sum(body: Step, shortcut: Step) -> Step:
    def compute(network: Any, x: Any, keys: Any) -> Any:
        skipped = shortcut(network, x, keys)
        return body(network, x, keys) + skipped

    return compute


def _resolve_layer(family: str, layer: Layer) -> Step:
    if not isinstance(layer, NamedLayer):
        function, arguments = load_function(family, layer), layer.arguments
        return lambda network, x, keys: function(x, **arguments)
    name = layer.name
    if layer.TAKES_KEYS:
        return lambda network, x, keys: getattr(network, name)(x, keys)
    return lambda network, x, keys: getattr(network, name)(x)
