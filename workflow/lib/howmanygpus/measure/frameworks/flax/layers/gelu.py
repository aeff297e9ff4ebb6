"""GELU of the JAX family."""

import jax
from flax import nnx


def gelu(x: jax.Array) -> jax.Array:
    """Apply GELU by the error function (Hendrycks & Gimpel 2016, arXiv:1606.08415), not by the tanh approximation."""
    return nnx.gelu(x, approximate=False)
