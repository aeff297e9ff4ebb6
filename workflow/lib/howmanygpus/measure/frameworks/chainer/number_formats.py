"""Formats of numbers in the Chainer family."""

from collections.abc import Callable
from typing import Any

import chainer
import numpy as np

from howmanygpus.measure.frameworks.number_formats import NumberFormats


def add(numbers: NumberFormats, kind: str, name: str, array: Any) -> None:
    array = chainer.backends.cuda.to_cpu(array)
    kept = array if array.dtype == np.float64 else array.astype(np.float32)
    numbers.add(kind, name, np.array(kept), array.dtype.name)


FORWARD = ("Convolution2DFunction", "LinearFunction", "MatMul")
BACKWARD = ("Deconvolution2DFunction", "Convolution2DGradW", "LinearGradData", "LinearGradWeight")
"""Chainer's functions of products, and those that their backward passes call."""


class NoteFormats(chainer.FunctionHook):
    """Records the formats of the operands of products."""

    name = "note_formats"

    def __init__(self, numbers: NumberFormats):
        self.numbers = numbers

    def forward_preprocess(self, function: Any, in_data: Any) -> None:
        for names, found in ((FORWARD, self.numbers.activations), (BACKWARD, self.numbers.backward)):
            if type(function).__name__ in names:
                found.update(array.dtype.name for array in in_data if array.dtype.kind == "f")


def begin(backend: Any, batch: tuple[np.ndarray, np.ndarray]) -> Callable[[], NumberFormats]:
    """Begin to observe the next step, and return the function that ends it. See measure.frameworks.number_formats."""
    numbers, communicator = NumberFormats(), backend.communicator
    hook, usual = NoteFormats(numbers), communicator.multi_node_mean_grad

    def exchange(model: chainer.Link, *arguments: Any) -> Any:
        for _, parameter in model.namedparams():
            if parameter.grad is not None:
                dtype = np.dtype(getattr(communicator, "allreduce_grad_dtype", None) or parameter.grad.dtype)
                numbers.exchange(dtype.name, parameter.grad.size * dtype.itemsize)
        return usual(model, *arguments)

    communicator.multi_node_mean_grad = exchange
    hook.__enter__()

    def end() -> NumberFormats:
        hook.__exit__(None, None, None)
        communicator.multi_node_mean_grad = usual
        add_kept(numbers, backend.network.model)
        return numbers

    return end


def add_kept(numbers: NumberFormats, model: chainer.Link) -> None:
    """Add the weights, running statistics and moments."""
    for name, parameter in model.namedparams():
        add(numbers, "weights", name, parameter.array)
        for key, value in (parameter.update_rule.state or {}).items():
            if getattr(value, "shape", None) == parameter.shape:
                add(numbers, "moments", f"{name}.{key}", value)
    for name, link in model.namedlinks():
        for key in ("avg_mean", "avg_var"):
            if hasattr(link, key):
                add(numbers, "statistics", f"{name}.{key}", getattr(link, key))
