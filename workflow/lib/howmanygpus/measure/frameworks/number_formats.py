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
    collectives of the step's gradients, by format, added over the devices; None if it cannot be observed. remembered:
    with PowerSGD, the norm of what the applied gradients have of earlier steps over that of what they leave out of this
    step; None if they leave nothing out.
    kept: arrays by kind (`weights`, `statistics`, `moments`) and name. formats: those of the arrays by
    kind, in the framework itself.
    """

    activations: set[str] = field(default_factory=set)
    backward: set[str] = field(default_factory=set)
    exchanged: dict[str, int] | None = field(default_factory=dict)
    remembered: float | None = None
    kept: dict[str, dict[str, np.ndarray]] = field(default_factory=dict)
    formats: dict[str, set[str]] = field(default_factory=dict)

    def add(self, kind: str, name: str, array: np.ndarray, dtype: str) -> None:
        self.kept.setdefault(kind, {})[name] = array
        self.formats.setdefault(kind, set()).add(dtype)

    def exchange(self, dtype: str, num_bytes: int) -> None:
        assert self.exchanged is not None
        self.exchanged[dtype] = self.exchanged.get(dtype, 0) + num_bytes


def count_factors(rows: int, columns: int, rank: int) -> int | None:
    """Return the number of elements of the two factors of a matrix that PowerSGD exchanges; None if it is not worth it.

    They must have less than half of its elements, by `min_compression_rate` of PyTorch's PowerSGDState.
    """
    count = (rows + columns) * min(rows, columns, rank)
    return count if 2 * count < rows * columns else None
