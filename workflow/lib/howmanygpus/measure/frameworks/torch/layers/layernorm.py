"""Layer normalisation of the PyTorch family."""

from torch import nn

from howmanygpus.measure.frameworks.torch.layers.context import LayerContext


def layernorm(context: LayerContext, features: int, *, epsilon: float) -> nn.Module:
    """Normalises the last axis by its mean and its biased variance."""
    return nn.LayerNorm(features, eps=epsilon, elementwise_affine=True, bias=True)
