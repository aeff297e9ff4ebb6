"""ReLU of the JAX family."""

import jax
from flax import nnx


def relu(x: jax.Array) -> jax.Array:
    return nnx.relu(x)
