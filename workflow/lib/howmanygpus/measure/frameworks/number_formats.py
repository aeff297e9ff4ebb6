"""
The formats of numbers that a framework trains with and exchanges, observed by the parity gate in a training step.

`begin(backend, batch)` of a family's file is called before a step of the training and returns a function that is called
after it and returns `NumberFormats`. batch: this process's first batch, (images, targets) in the host's memory. Neither
changes anything. A family whose step is a program that can be read, such as a traced function, reads that program.
"""

from dataclasses import dataclass, field

import numpy as np


@dataclass
class NumberFormats:
    """Formats, such as `float32`, and the arrays that a framework keeps from one step to the next.

    activations: formats in which products (convolutions, matrix products) are computed in the forward pass of a
    training step. backward: the same in its backward pass. exchanged: bytes that this process's devices give to the
    collectives of the step's gradients, by format, added over the devices; empty with one device. kept: arrays by kind
    (`weights`, `statistics`, `moments`) and name. formats: those of the arrays by kind, in the framework itself.
    """

    activations: set[str] = field(default_factory=set)
    backward: set[str] = field(default_factory=set)
    exchanged: dict[str, int] = field(default_factory=dict)
    kept: dict[str, dict[str, np.ndarray]] = field(default_factory=dict)
    formats: dict[str, set[str]] = field(default_factory=dict)

    def add(self, kind: str, name: str, array: np.ndarray, dtype: str) -> None:
        self.kept.setdefault(kind, {})[name] = array
        self.formats.setdefault(kind, set()).add(dtype)

    def exchange(self, dtype: str, num_bytes: int) -> None:
        self.exchanged[dtype] = self.exchanged.get(dtype, 0) + num_bytes
