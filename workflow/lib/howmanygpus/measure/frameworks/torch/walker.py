"""Builds networks of the PyTorch family."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from howmanygpus.measure.frameworks.torch.layers.context import LayerContext
from howmanygpus.measure.models.layout import Branches, Chain, Layer, Layout, NamedLayer, Node, Sum, load_function
from howmanygpus.measure.models.networks import find_build, lay_out


class ForwardPass:
    """
    Writes the code of a forward pass, line by line, as one would write it by hand.

    Functions that call each other, one for each node, would compute the same. In a compiled network, PyTorch would
    compare all of them in each step with those that it compiled.
    """

    def __init__(self, layout: Layout):
        self._lines, self._num_names = ["def forward(self, x, keys):"], 0
        self._functions: dict[str, Callable] = {}
        self._write(layout.body)
        self._add("return x")

    def compile(self) -> Callable[[nn.Module, torch.Tensor, torch.Tensor | None], torch.Tensor]:
        """Return the function from a network, its inputs and the keys of the images to the outputs."""
        names: dict[str, Any] = dict(self._functions)
        exec("\n".join(self._lines), names)
        return names["forward"]

    def _add(self, line: str) -> None:
        self._lines.append(f"    {line}")

    def _make_name(self) -> str:
        self._num_names += 1
        return f"x{self._num_names}"

    def _use(self, node: Layer | Branches) -> str:
        """Return the name by which the code calls a function."""
        function = load_function("torch", node)
        self._functions[function.__name__] = function
        return function.__name__

    def _write(self, node: Node) -> None:
        """Write what replaces x by the outputs of a node. Variables are deleted as soon as they are not needed."""
        if isinstance(node, Chain):
            for part in node.parts:
                self._write(part)
        elif isinstance(node, Sum):
            given, skipped = self._make_name(), self._make_name()
            self._add(f"{given} = x")
            self._write(node.shortcut)
            self._add(f"{skipped}, x = x, {given}; del {given}")
            self._write(node.body)
            self._add(f"x = x + {skipped}; del {skipped}")
        elif isinstance(node, Branches):
            given, outputs = self._make_name(), [self._make_name() for _ in node.branches]
            self._add(f"{given} = x")
            for branch, output in zip(node.branches, outputs, strict=True):
                self._write(branch)
                self._add(f"{output}, x = x, {given}")
            self._add(f"x = {self._use(node)}([{', '.join(outputs)}]); del {given}, {', '.join(outputs)}")
        elif isinstance(node, NamedLayer):
            self._add(f"x = self.{node.name}(x{', keys' if node.TAKES_KEYS else ''})")
        elif isinstance(node, Layer):
            arguments = "".join(f", {name}={value!r}" for name, value in node.arguments.items())
            self._add(f"x = {self._use(node)}(x{arguments})")


class LaidOutNetwork(nn.Module):
    """Maps normalised images (batch, channels, height, width) to logits (batch, num_classes).

    keys: keys of the images, by which units are dropped in training.
    """

    def __init__(self, layout: Layout, image_shape: tuple[int, int, int], context: LayerContext):
        super().__init__()
        for layer, shape in layout.list_layers(image_shape):
            function = load_function("torch", layer)
            self.add_module(layer.name, function(context, **layer.sizes(shape), **layer.arguments))
            if layer.TAKES_KEYS and not hasattr(self, "image_keys"):
                self.image_keys = load_function("torch", layer, "image_keys")(context, image_shape)
        self._compute = ForwardPass(layout).compile()

    def forward(self, x: torch.Tensor, keys: torch.Tensor | None = None) -> torch.Tensor:
        return self._compute(self, x, keys)


def build(
    model: str, image_shape: tuple[int, int, int], num_classes: int, context: LayerContext, **options
) -> nn.Module:
    """Return a module from normalised images to logits (batch, num_classes). image_shape: (height, width, channels)."""
    if own := find_build(model, "torch"):
        return own(image_shape, num_classes, context, **options)
    return LaidOutNetwork(lay_out(model, num_classes, **options), image_shape, context)
