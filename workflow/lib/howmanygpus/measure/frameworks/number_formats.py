"""
The formats of numbers that a framework trains with, read back from the framework for the parity gate.

`read(backend, batch)` of a family's file returns `NumberFormats`. batch: this process's first batch, (images, targets)
in the host's memory. It is called during the training, and changes nothing.
"""

from dataclasses import dataclass, field

import numpy as np


@dataclass
class NumberFormats:
    """Formats, such as `float32`, and the arrays that a framework keeps from one step to the next.

    activations: formats in which products (convolutions, matrix products) are computed. kept: arrays by kind
    (`weights`, `statistics`, `moments`) and name. formats: those of the arrays by kind, in the framework itself.
    """

    activations: set[str] = field(default_factory=set)
    kept: dict[str, dict[str, np.ndarray]] = field(default_factory=dict)
    formats: dict[str, set[str]] = field(default_factory=dict)

    def add(self, kind: str, name: str, array: np.ndarray, dtype: str) -> None:
        self.kept.setdefault(kind, {})[name] = array
        self.formats.setdefault(kind, set()).add(dtype)
