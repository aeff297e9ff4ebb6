"""What layers of the PyTorch family need to know about the run."""

from dataclasses import dataclass


@dataclass(frozen=True)
class LayerContext:
    """batchnorm: `local` or `synchronized`. seed: of what layers draw in training."""

    batchnorm: str
    seed: int = 0
