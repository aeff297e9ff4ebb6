"""GELU of the Keras family."""

from keras import KerasTensor, ops


def gelu(x: KerasTensor) -> KerasTensor:
    """With the error function itself (Hendrycks & Gimpel 2016, arXiv:1606.08415), not the approximation by tanh."""
    return ops.gelu(x, approximate=False)
