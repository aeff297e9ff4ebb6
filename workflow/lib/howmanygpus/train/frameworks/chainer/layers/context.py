"""What layers of the Chainer family need to know about the run."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class LayerContext:
    """
    batchnorm: `local` or `synchronized`.
    communicator: ChainerMN's, of all processes; only synchronized batch normalisation uses it.
    seed: of what layers draw in training.
    """

    batchnorm: str
    communicator: Any = None
    seed: int = 0
