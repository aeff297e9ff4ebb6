"""Attention of the PyTorch family."""

import torch
from torch.nn import functional as F


def attend(x: torch.Tensor, *, heads: int) -> torch.Tensor:
    """Attention of all tokens to all, without dropout (Vaswani et al. 2017, arXiv:1706.03762, equation 1).

    x: queries, keys and values one after the other, (batch, tokens, 3 * width), each with its heads one after the
    other. The result is (batch, tokens, width).
    """
    batch, tokens, _ = x.shape
    query, key, value = x.reshape(batch, tokens, 3, heads, -1).permute(2, 0, 3, 1, 4)
    attended = F.scaled_dot_product_attention(query, key, value, dropout_p=0.0, is_causal=False)
    return attended.transpose(1, 2).flatten(2)
