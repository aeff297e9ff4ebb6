"""Images as vectors for the MXNet Gluon family."""

from howmanygpus.measure.frameworks.gluon.layers.operators import Tensor, operators_of


def flatten(x: Tensor) -> Tensor:
    """Flatten to (batch, height * width * channels), in this order."""
    F = operators_of(x)
    return F.reshape(F.transpose(x, axes=(0, 2, 3, 1)), (0, -1))
