"""Pooling over the whole image for the MXNet Gluon family."""

from howmanygpus.measure.frameworks.gluon.layers.operators import Tensor, operators_of


def global_average_pool(x: Tensor) -> Tensor:
    """Mean over the image: (batch, channels)."""
    return operators_of(x).mean(x, axis=(2, 3))
