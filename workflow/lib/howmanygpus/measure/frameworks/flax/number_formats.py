"""
Formats of numbers in the JAX family.

The formats of products and of the exchange are read in the step as JAX has traced it, before XLA.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from howmanygpus.measure.frameworks.number_formats import NumberFormats

PRODUCTS = ("conv_general_dilated", "dot_general")
SUMS = ("psum", "psum_invariant")
"""Sums over devices."""
FORWARD, BACKWARD = "jvp(", "transpose("
"""Parts of the name stack of an equation that JAX made when it differentiated the forward pass and transposed it."""


class Seen(NamedTuple):
    """An equation of a traced step, and the name stacks of the equation and of those that it is part of."""

    equation: Any
    stack: str


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
    seen = list(list_equations(step.jaxpr))
    for equation, stack in seen:
        if equation.primitive.name in PRODUCTS:
            formats = numbers.backward if BACKWARD in stack else numbers.activations
            # jax.nn.dot_product_attention multiplies float32 gradients of its softmax by bfloat16 queries and keys.
            formats.add(str(min((array.dtype for array in list_floats(equation)), key=lambda dtype: dtype.itemsize)))
    if backend.spec.num_gpus > 1:
        for array in list_exchanged(seen):
            numbers.exchange(str(array.dtype), array.size * array.dtype.itemsize * len(backend.devices))
    return numbers


def list_exchanged(seen: list[Seen]) -> list[Any]:
    """Return the arrays of one device that are added over all devices after the backward pass, without the loss.

    Sums of synchronised BatchNorm are part of the forward and of the backward pass.
    """
    sums = [one.equation for one in seen if one.equation.primitive.name in SUMS and FORWARD not in one.stack]
    arrays = [array for equation in sums for array in list_floats(equation)]
    *_, loss = [None, *(place for place, array in enumerate(arrays) if not array.ndim)]
    return [array for place, array in enumerate(arrays) if place != loss]


def list_floats(equation: Any) -> list[Any]:
    """Return the shapes and formats of an equation's operands that are floating-point numbers."""
    arrays = [variable.aval for variable in equation.invars]
    return [array for array in arrays if jnp.issubdtype(array.dtype, jnp.floating)]


def list_equations(jaxpr: Any, stack: str = "") -> Iterator[Seen]:
    """Yield all equations of a traced function, at any depth. stack: name stack of what calls it."""
    for equation in jaxpr.eqns:
        names = f"{stack}/{equation.source_info.name_stack}"
        yield Seen(equation, names)
        for value in equation.params.values():
            for inner in value if isinstance(value, (tuple, list)) else [value]:
                inner = getattr(inner, "jaxpr", inner)
                if hasattr(inner, "eqns"):
                    yield from list_equations(inner, names)
