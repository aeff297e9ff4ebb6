"""Pooling over the whole image for the Chainer family."""

import chainer
import chainer.functions as F


def global_average_pool(x: chainer.Variable) -> chainer.Variable:
    """Mean over the image: (batch, channels)."""
    return F.mean(x, axis=(2, 3))
