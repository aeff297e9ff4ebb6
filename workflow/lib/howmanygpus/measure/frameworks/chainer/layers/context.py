"""Settings of the run that layers of the Chainer family depend on."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class LayerContext:
    """
    batchnorm: `local` or `synchronized`.
    communicator: ChainerMN's, of all processes; only synchronized batch normalisation uses it.
    seed: seed of the layers' random draws in training.
    eval_batchnorm: the statistics that evaluation uses: `batch`, or running ones, whose devices the backend chooses.
    """

    batchnorm: str
    communicator: Any = None
    seed: int = 0
    eval_batchnorm: str = "running"
