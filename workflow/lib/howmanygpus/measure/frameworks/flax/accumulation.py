"""Gradient accumulation in the JAX family: one optimizer step on the mean gradient of several batches."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from flax import nnx

from howmanygpus.measure.frameworks.flax.layers.context import DEVICE_AXIS


def accumulate(differentiate: Callable, parameters: nnx.State, count: int) -> Callable:
    """Return a function like `differentiate` that takes `count` parts of its batch one after the other.

    differentiate: maps (statistics, images, labels) of one device to ((loss, new statistics), gradients).
    """

    def add_part(carried, part):
        losses, gradients, statistics = carried
        (loss, statistics), added = differentiate(statistics, *part)
        return (losses + loss, jax.tree.map(jnp.add, gradients, added), statistics), None

    def differentiate_all(statistics, images, labels):
        parts = [array.reshape(count, -1, *array.shape[1:]) for array in (images, labels)]
        nothing = jnp.zeros(()), jax.tree.map(jnp.zeros_like, parameters)
        losses, gradients = jax.lax.pcast(nothing, DEVICE_AXIS, to="varying")
        (losses, gradients, statistics), _ = jax.lax.scan(add_part, (losses, gradients, statistics), parts)
        return (losses / count, statistics), jax.tree.map(lambda total: total / count, gradients)

    return differentiate_all
