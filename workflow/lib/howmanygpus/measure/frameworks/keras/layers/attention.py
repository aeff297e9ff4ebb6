"""Attention of the Keras family."""

from keras import KerasTensor, ops


def attend(x: KerasTensor, *, heads: int) -> KerasTensor:
    """Attention of all tokens to all, without dropout (Vaswani et al. 2017, arXiv:1706.03762, equation 1).

    x: queries, keys and values one after the other, (batch, tokens, 3 * width), each with its heads one after the
    other. The result is (batch, tokens, width).
    """
    tokens, width = x.shape[1], x.shape[2] // 3
    parts = ops.reshape(x, (-1, tokens, 3, heads, width // heads))
    attended = ops.dot_product_attention(*(parts[:, :, part] for part in range(3)), is_causal=False)
    return ops.reshape(attended, (-1, tokens, width))
