"""GELU of the PyTorch family."""

import torch
from torch.nn import functional as F


def gelu(x: torch.Tensor) -> torch.Tensor:
    """With the error function itself (Hendrycks & Gimpel 2016, arXiv:1606.08415), not the approximation by tanh."""
    return F.gelu(x, approximate="none")
