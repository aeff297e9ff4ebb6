"""
Formats of numbers in the Keras family.

The formats of products and of the exchange are read in the graphs that a step executes, as TensorFlow has traced them,
before Grappler and XLA.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf
from tensorflow.python.eager.polymorphic_function.concrete_function import ConcreteFunction

from howmanygpus.measure.frameworks.keras.loss_scaling import LossScaler
from howmanygpus.measure.frameworks.number_formats import NumberFormats

MOMENTS = ("momentums", "_momentums", "_velocities")
"""Lists of variables that Keras's optimizers keep for each trainable variable."""
PRODUCTS = re.compile("Conv[123]D|Conv2d|MatMul|Einsum|XlaConv|XlaDot")
"""In types of operations."""
COLLECTIVES = re.compile("CollectiveReduce|NcclAllReduce|HorovodAllreduce|HorovodGroupedAllreduce")
"""Beginnings of types of operations that sum over devices; each device has an operation of its own."""
BACKWARD = re.compile("(^|/)gradient(s|_tape)(_[0-9]+)?/")
"""In the names of operations that tf.GradientTape adds, also to the backward function of a function."""
RESHAPING = ("Identity", "Reshape")


class Seen(NamedTuple):
    """An operation of a step, and whether it is part of the backward pass, or lies between it and the update."""

    operation: tf.Operation
    is_backward: bool
    is_after: bool


def to_array(variable: Any) -> np.ndarray:
    """Return the values; float32 holds all of bfloat16 and float16."""
    array = np.asarray(keras.ops.convert_to_numpy(variable))
    return array if array.dtype == np.float64 else array.astype(np.float32)


def begin(backend: Any, batch: tuple[np.ndarray, np.ndarray]) -> Callable[[], NumberFormats]:
    """Begin to observe the next step, and return the function that ends it. See measure.frameworks.number_formats."""
    graphs: list[tf.Graph] = []
    call = ConcreteFunction._call_flat

    def record_and_call(function: ConcreteFunction, *arguments: Any, **options: Any) -> Any:
        if not tf.inside_function():
            graphs.append(function.graph)
        return call(function, *arguments, **options)

    ConcreteFunction._call_flat = record_and_call

    def end() -> NumberFormats:
        ConcreteFunction._call_flat = call
        numbers = read_kept(backend)
        for graph in graphs:
            read_graph(graph, numbers, backend.spec.num_gpus > 1)
        return numbers

    return end


def read_kept(backend: Any) -> NumberFormats:
    numbers = NumberFormats()
    model, optimizer = backend.model, backend.optimizer
    if isinstance(optimizer, LossScaler):
        optimizer = optimizer.inner_optimizer
    for variable in model.trainable_variables:
        numbers.add("weights", variable.path, to_array(variable), variable.dtype)
    for variable in model.non_trainable_variables:
        if variable.path.endswith(("moving_mean", "moving_variance")):
            numbers.add("statistics", variable.path, to_array(variable), variable.dtype)
    for variable in [variable for name in MOMENTS for variable in getattr(optimizer, name, None) or []]:
        numbers.add("moments", variable.path, to_array(variable), variable.dtype)
    return numbers


def read_graph(graph: tf.Graph, numbers: NumberFormats, exchanges: bool) -> None:
    """Add the formats of the operands of all products, and the bytes of gradients that are given to collectives.

    exchanges: whether the run has several devices. A sum over one moves nothing.
    """
    for operation, is_backward, is_after in list_operations(graph):
        if PRODUCTS.search(operation.type):
            formats = numbers.backward if is_backward else numbers.activations
            formats |= {tensor.dtype.name for tensor in operation.inputs if tensor.dtype.is_floating}
        if exchanges and is_after and COLLECTIVES.match(operation.type):
            for tensor in operation.inputs:
                if tensor.dtype.is_floating and not is_flag(tensor):
                    numbers.exchange(tensor.dtype.name, tensor.shape.num_elements() * tensor.dtype.size)


def is_flag(tensor: tf.Tensor) -> bool:
    """Whether a tensor is a number made of a truth value, such as whether all gradients are finite."""
    operation = tensor.op
    while operation.type in RESHAPING:
        operation = operation.inputs[0].op
    return operation.type == "Cast" and operation.inputs[0].dtype == tf.bool


def list_operations(
    graph: tf.Graph, is_backward: bool = False, follows: bool = False, precedes: bool = False
) -> Iterator[Seen]:
    """Yield all operations of a graph and of the functions that it calls.

    Sums of synchronised BatchNorm precede operations of the backward pass, and the sum of a loss follows none.

    is_backward, follows, precedes: whether the operation that calls this graph is part of the backward pass, uses its
    results, and gives it something.
    """
    operations = graph.get_operations()
    differentiating = {operation.name for operation in operations if is_backward or differentiates(operation)}
    following, preceding = set(differentiating), set(differentiating)
    for operation in operations:
        if any(tensor.op.name in following for tensor in operation.inputs):
            following.add(operation.name)
    for operation in reversed(operations):
        if any(user.name in preceding for tensor in operation.outputs for user in tensor.consumers()):
            preceding.add(operation.name)
    for operation in operations:
        inner = is_backward or BACKWARD.search(operation.name) is not None
        after = follows or any(tensor.op.name in following for tensor in operation.inputs)
        before = precedes or any(user.name in preceding for tensor in operation.outputs for user in tensor.consumers())
        yield Seen(operation, inner, after and not inner and not before)
        for function in list_functions(operation):
            yield from list_operations(function, inner, after, before)


def differentiates(operation: tf.Operation) -> bool:
    """Whether an operation or anything in the functions that it calls is part of the backward pass."""
    return BACKWARD.search(operation.name) is not None or any(
        differentiates(inner) for function in list_functions(operation) for inner in function.get_operations()
    )


def list_functions(operation: tf.Operation) -> list[tf.Graph]:
    """Return the graphs of the functions that an operation calls, such as the branches of a condition."""
    names = [function.name for value in operation.node_def.attr.values() for function in (value.func, *value.list.func)]
    found = [operation.graph._get_function(name) for name in names if name]
    return [function.graph for function in found if function]
