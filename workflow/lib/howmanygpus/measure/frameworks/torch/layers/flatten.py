"""Images as vectors for the PyTorch family."""

import torch


def flatten(x: torch.Tensor) -> torch.Tensor:
    """Flatten to (batch, height * width * channels), in this order."""
    return x.permute(0, 2, 3, 1).flatten(1)
