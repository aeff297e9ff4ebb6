"""Settings of the run that layers of the MXNet Gluon family depend on."""

from dataclasses import dataclass


@dataclass(frozen=True)
class LayerContext:
    """
    batchnorm: `local` or `synchronized`.
    num_devices: devices that train the model together.
    seed: seed of the layers' random draws in training.
    eval_batchnorm: the statistics that evaluation uses: `batch`, or running ones, whose devices the backend chooses.
    """

    batchnorm: str
    num_devices: int
    seed: int = 0
    eval_batchnorm: str = "running"
