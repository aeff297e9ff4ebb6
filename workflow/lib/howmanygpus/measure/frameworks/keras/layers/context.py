"""Settings of the run that layers of the Keras family depend on."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class LayerContext:
    """
    batchnorm: `local` or `synchronized`. The precision is Keras's global policy.
    seed: seed of the layers' random draws in training.
    images: the network's input, a KerasTensor of uint8 (batch, height, width, channels).
    eval_batchnorm: the statistics that evaluation uses: `batch`, or running ones, whose devices the backend chooses.
    """

    batchnorm: str
    seed: int = 0
    images: Any = None
    eval_batchnorm: str = "running"
