"""
The loss of the reference, for PyTorch to differentiate.

NumPy computes it: the simulated rounding of bf16, which leaves losses in float32, only sees PyTorch.
"""

import numpy as np
import torch

from howmanygpus.train.parity.cross_entropy import sigmoid_cross_entropy, softmax_cross_entropy


class PartOfLoss(torch.autograd.Function):
    """What one device's images add to the loss of the global batch.

    logits: (count, classes); labels: as in PreparedData; num_terms: of the global batch.
    """

    @staticmethod
    def forward(ctx, logits, labels: np.ndarray, smoothing: float, num_terms: int):
        values = logits.detach().numpy()
        if labels.ndim == 2:
            losses, gradient = sigmoid_cross_entropy(values, labels)
        else:
            losses, gradient = softmax_cross_entropy(values, labels, smoothing)
        ctx.gradient = torch.from_numpy(gradient / num_terms)
        return torch.tensor(losses.sum() / num_terms)

    @staticmethod
    def backward(ctx, _):
        """The loss is what is differentiated, so the gradient by itself is one."""
        return ctx.gradient, None, None, None
