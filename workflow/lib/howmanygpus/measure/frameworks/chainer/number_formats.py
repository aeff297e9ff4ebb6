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
    numbers = NumberFormats()
    hook = NoteFormats(numbers)
    end_exchange = observe_exchange(backend.communicator, numbers)
    hook.__enter__()

    def end() -> NumberFormats:
        hook.__exit__(None, None, None)
        end_exchange()
        add_kept(numbers, backend.network.model)
        return numbers

    return end


def observe_exchange(communicator: Any, numbers: NumberFormats) -> Callable[[], None]:
    """Record the arrays whose mean a communicator computes while it averages gradients. Return what ends this.

    Synchronised BatchNorm uses the same functions at other times.
    """
    names = ("multi_node_mean_grad", "_multi_node_mean", "_multi_node_mean_nccl")
    usual = {name: getattr(communicator, name) for name in names if hasattr(communicator, name)}
    averaging = False

    def average_gradients(*arguments: Any) -> Any:
        nonlocal averaging
        averaging = True
        usual["multi_node_mean_grad"](*arguments)
        averaging = False

    def average(sent: Any, received: Any) -> Any:
        if averaging:
            numbers.exchange(received.dtype.name, received.nbytes)
        return usual["_multi_node_mean"](sent, received)

    def average_by_nccl(sent: Any, received: Any, count: int, dtype: Any, *stream: Any) -> Any:
        if averaging:
            numbers.exchange(np.dtype(dtype).name, count * np.dtype(dtype).itemsize)
        return usual["_multi_node_mean_nccl"](sent, received, count, dtype, *stream)

    recording = dict(zip(names, (average_gradients, average, average_by_nccl), strict=True))
    for name in usual:
        setattr(communicator, name, recording[name])

    def end() -> None:
        for name in usual:
            setattr(communicator, name, usual[name])

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
