"""Pooling over windows for the Keras family. Windows that do not fit into the padded image are left out."""

import math

from keras import KerasTensor, ops

from howmanygpus.measure.frameworks.geometry import Padding, Size, as_pair, as_sides

OPTIONS = {"padding": "valid", "data_format": "channels_last"}


def pad(x: KerasTensor, padding: Padding, value: float) -> KerasTensor:
    """Add the padding; Keras's own `same` pads unevenly and depends on the image's size."""
    rows, columns = as_sides(padding)
    return ops.pad(x, ((0, 0), rows, columns, (0, 0)), constant_values=value) if padding != 0 else x


def max_pool(x: KerasTensor, size: Size, *, stride: int, padding: Padding) -> KerasTensor:
    """Largest value of each window. Padding is never the largest."""
    return ops.max_pool(pad(x, padding, -math.inf), as_pair(size), strides=stride, **OPTIONS)


def average_pool(x: KerasTensor, size: Size, *, stride: int, padding: Padding) -> KerasTensor:
    """Mean of each window. Padding counts as zeros: the sum is divided by the window's whole area."""
    return ops.average_pool(pad(x, padding, 0.0), as_pair(size), strides=stride, **OPTIONS)
