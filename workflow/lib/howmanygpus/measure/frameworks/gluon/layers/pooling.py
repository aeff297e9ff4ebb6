"""Pooling over windows for the MXNet Gluon family. Windows that do not fit into the padded image are left out."""

import numpy as np

from howmanygpus.measure.frameworks.geometry import Padding, Size, as_pair, as_sides, as_symmetric
from howmanygpus.measure.frameworks.gluon.layers.operators import Tensor, operators_of

PADDING_MINIMUM = float(np.finfo(np.float32).min)
"""MXNet pads with finite values only."""


def pool(x: Tensor, kind: str, size: Size, stride: int, padding: Padding, value: float) -> Tensor:
    """Pool windows. value: the padding's value if opposite sides differ; MXNet itself pads opposite sides equally."""
    operators, symmetric = operators_of(x), as_symmetric(padding)
    if symmetric is None:
        rows, columns = as_sides(padding)
        width = (0, 0, 0, 0, *rows, *columns)
        x, symmetric = operators.pad(x, mode="constant", pad_width=width, constant_value=value), (0, 0)
    return operators.Pooling(
        x,
        kernel=as_pair(size),
        pool_type=kind,
        stride=(stride, stride),
        pad=symmetric,
        pooling_convention="valid",
        count_include_pad=True,
    )


def max_pool(x: Tensor, size: Size, *, stride: int, padding: Padding) -> Tensor:
    """Largest value of each window. Padding is never the largest."""
    return pool(x, "max", size, stride, padding, PADDING_MINIMUM)


def average_pool(x: Tensor, size: Size, *, stride: int, padding: Padding) -> Tensor:
    """Mean of each window. Padding counts as zeros: the sum is divided by the window's whole area."""
    return pool(x, "avg", size, stride, padding, 0.0)
