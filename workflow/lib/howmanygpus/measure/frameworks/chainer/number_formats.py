"""Formats of numbers in the Chainer family."""

from collections.abc import Callable
from typing import Any

import chainer
import chainer.links as L
import numpy as np

from howmanygpus.measure.frameworks.number_formats import NumberFormats


def add(numbers: NumberFormats, kind: str, name: str, array: Any) -> None:
    array = chainer.backends.cuda.to_cpu(array)
    kept = array if array.dtype == np.float64 else array.astype(np.float32)
    numbers.add(kind, name, np.array(kept), array.dtype.name)


class NoteFormat(chainer.LinkHook):
    """Records the formats of the outputs of convolutions and linear links."""

    name = "note_format"

    def __init__(self) -> None:
        self.found: set[str] = set()

    def forward_postprocess(self, args: Any) -> None:
        if isinstance(args.link, (L.Convolution2D, L.Linear)):
            self.found.add(args.out.dtype.name)


def begin(backend: Any, batch: tuple[np.ndarray, np.ndarray]) -> Callable[[], NumberFormats]:
    """Begin to observe the next step, and return the function that ends it. See measure.frameworks.number_formats."""
    return lambda: read(backend, batch)


def read(backend: Any, batch: tuple[np.ndarray, np.ndarray]) -> NumberFormats:
    numbers, model = NumberFormats(), backend.network.model
    for name, parameter in model.namedparams():
        add(numbers, "weights", name, parameter.array)
        for key, value in (parameter.update_rule.state or {}).items():
            if getattr(value, "shape", None) == parameter.shape:
                add(numbers, "moments", f"{name}.{key}", value)
    for name, link in model.namedlinks():
        for key in ("avg_mean", "avg_var"):
            if hasattr(link, key):
                add(numbers, "statistics", f"{name}.{key}", getattr(link, key))
    hook = NoteFormat()
    with hook, chainer.using_config("train", False), chainer.no_backprop_mode():
        backend.network(backend.device.xp.asarray(batch[0][:2]))
    numbers.activations = hook.found
    return numbers
