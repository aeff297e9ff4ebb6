"""GELU of the Keras family."""

from keras import KerasTensor, ops


def gelu(x: KerasTensor) -> KerasTensor:
    """Apply GELU by the error function (Hendrycks & Gimpel 2016, arXiv:1606.08415), not by the tanh approximation."""
    return ops.gelu(x, approximate=False)
