"""Images as sequences of tokens for the PyTorch family."""

import torch
from torch import nn

from howmanygpus.measure.frameworks.torch.layers.context import LayerContext


class Tokens(nn.Module):
    def __init__(self, num_tokens: int, width: int):
        super().__init__()
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.position = nn.Parameter(torch.zeros(1, num_tokens, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pixels = x.flatten(2).transpose(1, 2)
        token = self.token.to(pixels.dtype).expand(len(pixels), -1, -1)
        return torch.cat([token, pixels], dim=1) + self.position


def tokens(context: LayerContext, num_pixels: int, width: int) -> nn.Module:
    """Map images of num_pixels pixels and width channels to (batch, 1 + num_pixels, width).

    The class token comes first, then the pixels row by row. A learned position embedding is added to each.
    """
    return Tokens(1 + num_pixels, width)


def class_token(x: torch.Tensor) -> torch.Tensor:
    """Return the first token: (batch, width)."""
    return x[:, 0]
