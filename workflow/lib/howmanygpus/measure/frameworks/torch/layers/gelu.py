"""GELU of the PyTorch family."""

import torch
from torch.nn import functional as F


def gelu(x: torch.Tensor) -> torch.Tensor:
    """Apply GELU by the error function (Hendrycks & Gimpel 2016, arXiv:1606.08415), not by the tanh approximation."""
    return F.gelu(x, approximate="none")
