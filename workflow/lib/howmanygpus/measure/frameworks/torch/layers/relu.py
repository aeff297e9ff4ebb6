"""
ReLU of the PyTorch family.

The reference of the parity gate replaces it to find out what rounding near zero can change. It is therefore the only
ReLU that a model may use.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

_compute: Callable[[torch.Tensor], torch.Tensor] = torch.relu


def relu(x: torch.Tensor) -> torch.Tensor:
    return _compute(x)


@contextmanager
def replace_relu(function: Callable[[torch.Tensor], torch.Tensor]) -> Iterator[None]:
    """Compute `relu` with another function while the context is open."""
    global _compute
    replaced, _compute = _compute, function
    try:
        yield
    finally:
        _compute = replaced
