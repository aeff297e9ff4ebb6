"""What layers of the Chainer family need to know about the run."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class LayerContext:
    """
    batchnorm: `local` or `synchronized`.
    communicator: ChainerMN's, of all processes; only synchronized batch normalisation uses it.
    """

    batchnorm: str
    communicator: Any = None
