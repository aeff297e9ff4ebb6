"""Fully connected layer of the PyTorch family, with a bias."""

from torch import nn

from howmanygpus.measure.frameworks.torch.layers.context import LayerContext


def dense(context: LayerContext, in_features: int, out_features: int) -> nn.Module:
    """Return a layer that acts on the last axis."""
    return nn.Linear(in_features, out_features, bias=True)
