"""Declares pooling over windows. Windows that do not fit into the padded image are left out."""

from dataclasses import KW_ONLY, dataclass

from howmanygpus.measure.frameworks.geometry import Padding, Size, count_windows
from howmanygpus.measure.models.layout import Layer, Shape


@dataclass(frozen=True)
class Pool(Layer):
    size: Size
    _: KW_ONLY
    stride: int
    padding: Padding

    def infer(self, shape: Shape) -> Shape:
        return (*count_windows(shape, self.size, self.stride, self.padding), shape[2])


class MaxPool(Pool):
    """Returns the largest value of each window. Padding is never the largest."""

    FUNCTION = "max_pool"


class AveragePool(Pool):
    """Returns the mean of each window. Padding counts as zeros."""

    FUNCTION = "average_pool"
