"""Pooling over the whole image for the Keras family."""

from keras import KerasTensor, ops


def global_average_pool(x: KerasTensor) -> KerasTensor:
    """Mean over the image: (batch, channels)."""
    return ops.mean(x, axis=(1, 2))
