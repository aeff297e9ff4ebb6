"""Fully connected layer of the Chainer family, with a bias."""

import chainer
import chainer.links as L

from howmanygpus.measure.frameworks.chainer.layers.context import LayerContext


def dense(context: LayerContext, in_features: int, out_features: int) -> chainer.Link:
    """Return a layer that acts on the last axis of (batch, in_features)."""
    return L.Linear(in_features, out_features, nobias=False)
