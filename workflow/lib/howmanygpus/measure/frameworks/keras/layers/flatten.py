"""Images as vectors for the Keras family."""

import math

from keras import KerasTensor, ops


def flatten(x: KerasTensor) -> KerasTensor:
    """Flatten to (batch, height * width * channels), in this order."""
    return ops.reshape(x, (-1, math.prod(x.shape[1:])))
