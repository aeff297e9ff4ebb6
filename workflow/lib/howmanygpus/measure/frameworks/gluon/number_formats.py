"""
Formats of numbers in the MXNet Gluon family.

An operator of MXNet computes in the format of its arrays, and gives each array a gradient of the same format.
"""

import json
import math
from collections.abc import Callable
from typing import Any

import mxnet as mx
import numpy as np
from mxnet import autograd
from mxnet.gluon import nn

from howmanygpus.measure.frameworks.number_formats import NumberFormats

PRODUCTS = (nn.Conv2D, nn.Dense)
OPERATORS = ("Convolution", "FullyConnected")
"""Names of the operators of these blocks, of which a hybridised network keeps a graph."""
WORD_BYTES, PER_WORD = 4, 16
"""Bytes of the words to which a kvstore compresses gradients, and how many values are in each.

MXNet 1.9.1 has the compression `2bit` alone.
"""


def add(numbers: NumberFormats, kind: str, name: str, array: mx.nd.NDArray) -> None:
    dtype = np.dtype(array.dtype)
    numbers.add(kind, name, array.asnumpy().astype(np.float64 if dtype == np.float64 else np.float32), dtype.name)


def begin(backend: Any, batch: tuple[np.ndarray, np.ndarray]) -> Callable[[], NumberFormats]:
    """Begin to observe the next step, and return the function that ends it. See measure.frameworks.number_formats."""
    numbers = NumberFormats()
    store = backend.servers.store if backend.servers else backend.trainer._kvstore
    end_products = observe_products(backend.network, numbers)
    # A kvstore does not say how it compresses.
    compression = (backend.trainer._compression_params or {}).get("type")
    end_exchange = observe_exchange(store, compression, numbers) if store and backend.spec.exchanges else lambda: None

    def end() -> NumberFormats:
        end_products()
        end_exchange()
        read(backend, numbers)
        return numbers

    return end


def observe_products(network: nn.HybridBlock, numbers: NumberFormats) -> Callable[[], None]:
    """Record the formats of the outputs of convolutions and dense layers while MXNet records a training step."""

    def record(block: nn.HybridBlock, _: Any, output: Any) -> None:
        if autograd.is_recording() and isinstance(output, mx.nd.NDArray):
            numbers.activations.add(np.dtype(output.dtype).name)

    if network._active:
        numbers.activations |= list_formats_of_graph(network)
        return lambda: None
    blocks: list[nn.HybridBlock] = []
    network.apply(blocks.append)
    hooks = [block.register_forward_hook(record) for block in blocks if isinstance(block, PRODUCTS)]

    def end() -> None:
        for hook in hooks:
            hook.detach()

    return end


def list_formats_of_graph(network: nn.HybridBlock) -> set[str]:
    """Return the formats of the outputs of all products in the graph of a hybridised network."""
    inputs, outputs = network._cached_graph
    formats = {each.name: each.dtype for each in network.collect_params().values()}
    internals = outputs.get_internals()
    given = {name: formats[name] for name in internals.list_arguments() if name in formats}
    _, found, _ = internals.infer_type(**given, **{inputs[0].name: np.uint8})
    products = {f"{node['name']}_output" for node in list_nodes(outputs) if node["op"] in OPERATORS}
    return {np.dtype(one).name for name, one in zip(internals.list_outputs(), found, strict=True) if name in products}


def list_nodes(graph: mx.sym.Symbol) -> list[dict]:
    return json.loads(graph.tojson())["nodes"]


def observe_exchange(store: mx.kv.KVStore, compression: str | None, numbers: NumberFormats) -> Callable[[], None]:
    """Record the arrays that are given to a kvstore. compression: how it compresses them; None if it does not."""
    given = {name: getattr(store, name) for name in ("push", "pushpull")}

    def record_and_call(name: str) -> Callable[..., Any]:
        def call(key: Any, value: Any, *arguments: Any, **options: Any) -> Any:
            for array in value if isinstance(value, (list, tuple)) else [value]:
                dtype = np.dtype(array.dtype)
                if compression:
                    numbers.exchange(compression, WORD_BYTES * math.ceil(array.size / PER_WORD))
                else:
                    numbers.exchange(dtype.name, array.size * dtype.itemsize)
            return given[name](key, value, *arguments, **options)

        return call

    for name in given:
        setattr(store, name, record_and_call(name))

    def end() -> None:
        for name in given:
            delattr(store, name)

    return end


def read(backend: Any, numbers: NumberFormats) -> None:
    """Add the arrays that are kept, and the formats of the gradients of kernels."""
    for name, parameter in backend.parameters.items():
        kind = "statistics" if name.endswith((".mean", ".variance")) else "weights"
        add(numbers, kind, name, parameter.list_data()[0])
        if parameter.grad_req != "null" and len(parameter.shape) > 1:
            numbers.backward.add(np.dtype(parameter.list_grad()[0].dtype).name)
    for number, state in read_states(backend.trainer).items():
        arrays = state if isinstance(state, (tuple, list)) else [state]
        for place, array in enumerate(arrays):
            if isinstance(array, mx.nd.NDArray):
                add(numbers, "moments", f"{number}.{place}", array)


def read_states(trainer: mx.gluon.Trainer) -> dict[Any, Any]:
    """Return the states of the optimizer of the first context, or of the kvstore if it updates the weights."""
    if trainer._update_on_kvstore and trainer._kvstore is not None:
        return trainer._kvstore._updater.states
    return trainer._updaters[0].states
