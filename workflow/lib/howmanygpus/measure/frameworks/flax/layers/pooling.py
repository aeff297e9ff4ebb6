"""Pooling over windows for the JAX family. Windows that do not fit into the padded image are left out."""

import jax
from flax import nnx

from howmanygpus.measure.frameworks.geometry import Padding, Size, as_pair, as_sides


def max_pool(x: jax.Array, size: Size, *, stride: int, padding: Padding) -> jax.Array:
    """Largest value of each window. Padding is never the largest."""
    return nnx.max_pool(x, as_pair(size), strides=(stride, stride), padding=as_sides(padding))


def average_pool(x: jax.Array, size: Size, *, stride: int, padding: Padding) -> jax.Array:
    """Mean of each window. Padding counts as zeros: the sum is divided by the window's whole area."""
    options = {"strides": (stride, stride), "padding": as_sides(padding), "count_include_pad": True}
    return nnx.avg_pool(x, as_pair(size), **options)
