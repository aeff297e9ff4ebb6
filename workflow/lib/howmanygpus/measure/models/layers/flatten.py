"""Declares images as vectors."""

import math

from howmanygpus.measure.models.layout import Layer, Shape


class Flatten(Layer):
    """Flattens by rows, columns and channels, in this order."""

    FUNCTION = "flatten"

    def infer(self, shape: Shape) -> Shape:
        return (math.prod(shape),)
