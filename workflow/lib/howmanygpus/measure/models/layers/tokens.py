"""Declares images as sequences of tokens."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any

from howmanygpus.measure.models.initialization import Draw, constant
from howmanygpus.measure.models.layout import Layer, NamedLayer, Shape


@dataclass(frozen=True)
class Tokens(NamedLayer):
    """
    A class token and then the pixels, row by row, with a learned position embedding added to each.

    draw: from the shape of the position embedding (1, tokens, width) to its initial draw. The class token begins as 0.
    """

    FUNCTION = "tokens"
    _: KW_ONLY
    draw: Callable[..., Draw]

    def infer(self, shape: Shape) -> Shape:
        height, width, channels = shape
        return 1 + height * width, channels

    def sizes(self, shape: Shape) -> dict[str, Any]:
        return {"num_pixels": shape[0] * shape[1], "width": shape[2]}

    def draws(self, shape: Shape) -> dict[str, Draw]:
        num_tokens, width = self.infer(shape)
        token, position = constant(0.0, 1, 1, width), self.draw(1, num_tokens, width)
        return {f"{self.name}.token": token, f"{self.name}.position": position}


class ClassToken(Layer):
    """Takes the class token and leaves out the others."""

    FUNCTION = "class_token"

    def infer(self, shape: Shape) -> Shape:
        return shape[1:]
