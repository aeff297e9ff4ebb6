"""Settings of the run that layers of the PyTorch family depend on."""

from dataclasses import dataclass


@dataclass(frozen=True)
class LayerContext:
    """
    batchnorm: `local` or `synchronized`.
    seed: seed of the layers' random draws in training.
    eval_batchnorm: the statistics that evaluation uses: `batch`, or running ones, whose devices the backend chooses.
    """

    batchnorm: str
    seed: int = 0
    eval_batchnorm: str = "running"
