"""Fully connected layer of the MXNet Gluon family, with a bias."""

from mxnet.gluon import nn

from howmanygpus.measure.frameworks.gluon.layers.context import LayerContext


def dense(context: LayerContext, in_features: int, out_features: int) -> nn.HybridBlock:
    """Return a layer that acts on the last axis."""
    return nn.Dense(out_features, in_units=in_features, use_bias=True, flatten=False)
