"""Images as sequences of tokens for the JAX family."""

import jax
import jax.numpy as jnp
from flax import nnx

from howmanygpus.measure.frameworks.flax.layers.context import LayerContext


class Tokens(nnx.Module):
    def __init__(self, num_tokens: int, width: int, dtype: jnp.dtype):
        self.token = nnx.Param(jnp.zeros((1, 1, width)))
        self.position = nnx.Param(jnp.zeros((1, num_tokens, width)))
        self.dtype = dtype

    def __call__(self, x: jax.Array) -> jax.Array:
        pixels = x.reshape(len(x), -1, x.shape[-1])
        token = jnp.broadcast_to(self.token.get_value().astype(self.dtype), (len(x), 1, x.shape[-1]))
        return jnp.concatenate([token, pixels], axis=1) + self.position.get_value().astype(self.dtype)


def tokens(context: LayerContext, num_pixels: int, width: int) -> nnx.Module:
    """Map images of num_pixels pixels and width channels to (batch, 1 + num_pixels, width).

    The class token comes first, then the pixels row by row. A learned position embedding is added to each.
    """
    return Tokens(1 + num_pixels, width, context.dtype)


def class_token(x: jax.Array) -> jax.Array:
    """Return the first token: (batch, width)."""
    return x[:, 0]
