"""Formats of numbers in the MXNet Gluon family."""

from collections.abc import Callable
from typing import Any

import mxnet as mx
import numpy as np

from howmanygpus.measure.frameworks.number_formats import NumberFormats


def add(numbers: NumberFormats, kind: str, name: str, array: mx.nd.NDArray) -> None:
    dtype = np.dtype(array.dtype)
    numbers.add(kind, name, array.asnumpy().astype(np.float64 if dtype == np.float64 else np.float32), dtype.name)


def begin(backend: Any, batch: tuple[np.ndarray, np.ndarray]) -> Callable[[], NumberFormats]:
    """Begin to observe the next step, and return the function that ends it. See measure.frameworks.number_formats."""
    return lambda: read(backend, batch)


def read(backend: Any, batch: tuple[np.ndarray, np.ndarray]) -> NumberFormats:
    numbers = NumberFormats()
    for name, parameter in backend.parameters.items():
        kind = "statistics" if name.endswith((".mean", ".variance")) else "weights"
        add(numbers, kind, name, parameter.list_data()[0])
    for number, state in read_states(backend.trainer).items():
        arrays = state if isinstance(state, (tuple, list)) else [state]
        for place, array in enumerate(arrays):
            if isinstance(array, mx.nd.NDArray):
                add(numbers, "moments", f"{number}.{place}", array)
    images = mx.nd.array(batch[0][:2], ctx=backend.contexts[0], dtype=np.uint8)
    with mx.autograd.predict_mode():
        numbers.activations = {np.dtype(backend.network(images).dtype).name}
    return numbers


def read_states(trainer: mx.gluon.Trainer) -> dict[Any, Any]:
    """Return the states of the optimizer of the first context, or of the kvstore if it updates the weights."""
    if trainer._update_on_kvstore and trainer._kvstore is not None:
        return trainer._kvstore._updater.states
    return trainer._updaters[0].states
