"""Images as vectors for the JAX family."""

import jax


def flatten(x: jax.Array) -> jax.Array:
    """Flatten to (batch, height * width * channels), in this order."""
    return x.reshape(len(x), -1)
