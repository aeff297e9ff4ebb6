"""What layers of the Keras family need to know about the run."""

from dataclasses import dataclass


@dataclass(frozen=True)
class LayerContext:
    """batchnorm: `local` or `synchronized`. The precision is Keras's global policy."""

    batchnorm: str
