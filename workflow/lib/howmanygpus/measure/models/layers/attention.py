"""Declares attention."""

from dataclasses import KW_ONLY, dataclass

from howmanygpus.measure.models.layout import Layer, Shape


@dataclass(frozen=True)
class Attend(Layer):
    """Attention of all tokens to all. The inputs are queries, keys and values, one after the other."""

    FUNCTION = "attend"
    _: KW_ONLY
    heads: int

    def infer(self, shape: Shape) -> Shape:
        tokens, width = shape
        return tokens, width // 3
