"""Attention of the JAX family."""

import jax


def attend(x: jax.Array, *, heads: int) -> jax.Array:
    """Attention of all tokens to all, without dropout (Vaswani et al. 2017, arXiv:1706.03762, equation 1).

    x: queries, keys and values one after the other, (batch, tokens, 3 * width), each with its heads one after the
    other. The result is (batch, tokens, width).
    """
    batch, tokens, _ = x.shape
    parts = x.reshape(batch, tokens, 3, heads, -1)
    attended = jax.nn.dot_product_attention(*(parts[:, :, part] for part in range(3)), is_causal=False)
    return attended.reshape(batch, tokens, -1)
