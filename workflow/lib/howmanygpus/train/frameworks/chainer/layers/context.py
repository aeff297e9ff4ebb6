"""What layers of the Chainer family need to know about the run."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class LayerContext:
    """
    batchnorm: `local` or `synchronized`.
    communicator: ChainerMN's, of all processes; only synchronized batch normalisation uses it.
    seed: of what layers draw in training.
    eval_batchnorm: `running` or `batch`, the statistics that evaluation uses.
    """

    batchnorm: str
    communicator: Any = None
    seed: int = 0
    eval_batchnorm: str = "running"
