"""What layers of the PyTorch family need to know about the run."""

from dataclasses import dataclass


@dataclass(frozen=True)
class LayerContext:
    """
    batchnorm: `local` or `synchronized`.
    seed: of what layers draw in training.
    eval_batchnorm: `running` or `batch`, the statistics that evaluation uses.
    """

    batchnorm: str
    seed: int = 0
    eval_batchnorm: str = "running"
