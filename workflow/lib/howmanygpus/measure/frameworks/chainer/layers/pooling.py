"""Pooling over windows for the Chainer family. Windows that do not fit into the padded image are left out."""

import math

import chainer
import chainer.functions as F

from howmanygpus.measure.frameworks.geometry import Padding, Size, as_pair, as_sides, as_symmetric


def pad(x: chainer.Variable, padding: Padding, value: float) -> chainer.Variable:
    return F.pad(x, ((0, 0), (0, 0), *as_sides(padding)), "constant", constant_values=value)


def max_pool(x: chainer.Variable, size: Size, *, stride: int, padding: Padding) -> chainer.Variable:
    """Largest value of each window. Padding is never the largest."""
    symmetric = as_symmetric(padding)
    if symmetric is None:
        x, symmetric = pad(x, padding, -math.inf), (0, 0)
    return F.max_pooling_2d(x, as_pair(size), stride, symmetric, cover_all=False)


def average_pool(x: chainer.Variable, size: Size, *, stride: int, padding: Padding) -> chainer.Variable:
    """Mean of each window. Padding counts as zeros: the sum is divided by the window's whole area."""
    symmetric = as_symmetric(padding)
    if symmetric is None:
        x, symmetric = pad(x, padding, 0.0), (0, 0)
    return F.average_pooling_2d(x, as_pair(size), stride, symmetric)
