"""
Describes a network as data: its layers, and how they are connected.

A layout says what a network computes and nothing about a framework. The walker of each family
(measure/frameworks/<family>/walker.py) builds the framework's network from it. Sizes of inputs are not declared: they
follow from the shape of the images.

The shape of what a layer takes or returns, without the batch, is (height, width, channels) for images, (tokens, width)
for sequences, and (features,) for vectors.
"""

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from keyword import iskeyword
from typing import Any, ClassVar

from howmanygpus.measure.models.initialization import Draw

Shape = tuple[int, ...]


class Node(ABC):
    """A layer, or several that are connected."""

    @abstractmethod
    def infer(self, shape: Shape) -> Shape:
        """Return the shape of the outputs. shape: shape of the inputs."""

    @abstractmethod
    def walk(self, shape: Shape) -> Iterator[tuple["Layer", Shape]]:
        """Yield every layer and the shape of its inputs. shape: shape of the node's inputs."""


@dataclass(frozen=True)
class Layer(Node):
    """
    One layer. Its class is declared in measure/models/layers/<layer>.py. Every family that has the layer has the
    function in measure/frameworks/<family>/layers/<layer>.py.

    FUNCTION: name of the function.
    """

    FUNCTION: ClassVar[str]

    def infer(self, shape: Shape) -> Shape:
        return shape

    def walk(self, shape: Shape) -> Iterator[tuple["Layer", Shape]]:
        yield self, shape

    @property
    def arguments(self) -> dict[str, Any]:
        """What the functions of all families take."""
        return {each.name: getattr(self, each.name) for each in fields(self) if each.name not in ("name", "draw")}


@dataclass(frozen=True)
class NamedLayer(Layer):
    """
    A layer with arrays or draws of its own, which belong to its name. Frameworks keep it as an object.

    TAKES_KEYS: whether it also takes the keys of the images, see measure.models.dropout_draws. The function
    `image_keys` beside that of the layer computes them.
    """

    TAKES_KEYS: ClassVar[bool] = False
    name: str

    def sizes(self, shape: Shape) -> dict[str, Any]:
        """Return what the functions take besides `arguments`, except in Keras, which finds it out by itself."""
        return {}

    def draws(self, shape: Shape) -> dict[str, Draw]:
        """Return the initial draw of every array, by its canonical name."""
        return {}


@dataclass(frozen=True)
class Chain(Node):
    """Each part takes what the one before it returns. Without parts, the inputs are returned."""

    parts: tuple[Node, ...]

    def infer(self, shape: Shape) -> Shape:
        for part in self.parts:
            shape = part.infer(shape)
        return shape

    def walk(self, shape: Shape) -> Iterator[tuple[Layer, Shape]]:
        for part in self.parts:
            yield from part.walk(shape)
            shape = part.infer(shape)


@dataclass(frozen=True)
class Sum(Node):
    """The sum of what two nodes return for the same input. The shortcut is computed first, and created last."""

    body: Node
    shortcut: Node = Chain(())

    def infer(self, shape: Shape) -> Shape:
        return self.body.infer(shape)

    def walk(self, shape: Shape) -> Iterator[tuple[Layer, Shape]]:
        yield from self.body.walk(shape)
        yield from self.shortcut.walk(shape)


@dataclass(frozen=True)
class Branches(Node):
    """What several nodes return for the same input, joined by a function that is found like that of a layer."""

    FUNCTION: ClassVar[str]
    branches: tuple[Node, ...]

    def walk(self, shape: Shape) -> Iterator[tuple[Layer, Shape]]:
        for branch in self.branches:
            yield from branch.walk(shape)


def load_function(family: str, node: Layer | Branches, name: str = "") -> Callable:
    """Import the family's function, so that a run depends on no other layer. name: of another one in its file."""
    layer = type(node).__module__.rpartition(".")[2]
    module = importlib.import_module(f"howmanygpus.measure.frameworks.{family}.layers.{layer}")
    return getattr(module, name or node.FUNCTION)


def chain(*parts: Node) -> Chain:
    """Connect nodes one after the other. The parts of a chain among them become parts of this one."""
    return Chain(tuple(each for part in parts for each in (part.parts if isinstance(part, Chain) else (part,))))


def _keep_order(layer: NamedLayer) -> int:
    return 0


@dataclass(frozen=True)
class Layout:
    """
    A whole network, from normalised images to logits.

    order: sort key of the order in which frameworks create the layers and keep their arrays. Layers of the same key
    are created in the order of the layout.
    """

    body: Node
    order: Callable[[NamedLayer], int] = _keep_order

    def list_layers(self, image_shape: Shape) -> list[tuple[NamedLayer, Shape]]:
        """Return every layer with a name, in the order of creation, and the shape of its inputs.

        Raises ValueError if two layers have the same name, or one has a name that no attribute can have.
        """
        found = [(layer, shape) for layer, shape in self.body.walk(image_shape) if isinstance(layer, NamedLayer)]
        names = [layer.name for layer, _ in found]
        if wrong := [name for name in names if not name.isidentifier() or iskeyword(name)]:
            raise ValueError(f"a layer is called {wrong[0]!r}; write letters, digits and underscores")
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"several layers are called {twice[0]}; a layer belongs to its name")
        return sorted(found, key=lambda each: self.order(each[0]))

    def list_draws(self, image_shape: Shape) -> dict[str, Draw]:
        """Return the initial draw of every array, by its canonical name."""
        layers = self.list_layers(image_shape)
        return {name: draw for layer, shape in layers for name, draw in layer.draws(shape).items()}

    def count_smallest_map(self, image_shape: Shape) -> int:
        """Return the number of pixels of the smallest feature map; 0 if the network needs larger images."""
        shapes = [image_shape, *(layer.infer(shape) for layer, shape in self.body.walk(image_shape))]
        return min(shape[0] * shape[1] for shape in shapes if len(shape) == len(image_shape))
