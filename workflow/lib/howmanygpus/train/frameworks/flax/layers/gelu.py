"""GELU of the JAX family."""

import jax
from flax import nnx


def gelu(x: jax.Array) -> jax.Array:
    """With the error function itself (Hendrycks & Gimpel 2016, arXiv:1606.08415), not the approximation by tanh."""
    return nnx.gelu(x, approximate=False)
