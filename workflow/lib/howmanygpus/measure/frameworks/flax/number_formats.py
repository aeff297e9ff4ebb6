"""Formats of numbers in the JAX family."""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from howmanygpus.measure.frameworks.number_formats import NumberFormats

PRODUCTS = ("conv_general_dilated", "dot_general")


def add_tree(numbers: NumberFormats, kind: str, tree: Any) -> None:
    """Add the arrays of floating-point numbers in a tree."""
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        if jnp.issubdtype(leaf.dtype, jnp.floating) and leaf.ndim:
            array = np.asarray(leaf.addressable_data(0))
            kept = array if array.dtype == np.float64 else array.astype(np.float32)
            numbers.add(kind, jax.tree_util.keystr(path), kept, str(leaf.dtype))


def begin(backend: Any, batch: tuple[np.ndarray, np.ndarray]) -> Callable[[], NumberFormats]:
    """Begin to observe the next step, and return the function that ends it. See measure.frameworks.number_formats."""
    return lambda: read(backend, batch)


def read(backend: Any, batch: tuple[np.ndarray, np.ndarray]) -> NumberFormats:
    numbers = NumberFormats()
    add_tree(numbers, "weights", backend.parameters)
    add_tree(numbers, "statistics", backend.statistics)
    add_tree(numbers, "moments", backend.optimizer_state)
    count = backend.spec.global_batch_size
    shapes = [jax.ShapeDtypeStruct((count, *array.shape[1:]), array.dtype) for array in batch]
    step = jax.make_jaxpr(backend._step)(backend.parameters, backend.optimizer_state, backend.statistics, *shapes)
    numbers.activations = set(list_product_formats(step.jaxpr))
    return numbers


def list_product_formats(jaxpr: Any) -> Iterator[str]:
    """Yield the formats of the operands of all products of a traced step, forwards and backwards, at any depth."""
    for equation in jaxpr.eqns:
        if equation.primitive.name in PRODUCTS:
            operands = [variable.aval.dtype for variable in equation.invars]
            yield from (str(dtype) for dtype in operands if jnp.issubdtype(dtype, jnp.floating))
        for value in equation.params.values():
            for inner in value if isinstance(value, (tuple, list)) else [value]:
                inner = getattr(inner, "jaxpr", inner)
                if hasattr(inner, "eqns"):
                    yield from list_product_formats(inner)
