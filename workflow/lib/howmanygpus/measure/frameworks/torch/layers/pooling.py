"""Pooling over windows for the PyTorch family. Windows that do not fit into the padded image are left out."""

import math

import torch
from torch.nn import functional as F

from howmanygpus.measure.frameworks.geometry import Padding, Size, as_pair, as_sides, as_symmetric


def pad(x: torch.Tensor, padding: Padding, value: float) -> torch.Tensor:
    rows, columns = as_sides(padding)
    return F.pad(x, (*columns, *rows), value=value)


def max_pool(x: torch.Tensor, size: Size, *, stride: int, padding: Padding) -> torch.Tensor:
    """Largest value of each window. Padding is never the largest."""
    symmetric = as_symmetric(padding)
    if symmetric is None:
        x, symmetric = pad(x, padding, -math.inf), (0, 0)
    return F.max_pool2d(x, as_pair(size), stride, symmetric, ceil_mode=False)


def average_pool(x: torch.Tensor, size: Size, *, stride: int, padding: Padding) -> torch.Tensor:
    """Mean of each window. Padding counts as zeros: the sum is divided by the window's whole area."""
    symmetric = as_symmetric(padding)
    if symmetric is None:
        x, symmetric = pad(x, padding, 0.0), (0, 0)
    return F.avg_pool2d(x, as_pair(size), stride, symmetric, ceil_mode=False, count_include_pad=True)
