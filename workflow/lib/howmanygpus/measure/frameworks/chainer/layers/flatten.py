"""Images as vectors for the Chainer family."""

import chainer
import chainer.functions as F


def flatten(x: chainer.Variable) -> chainer.Variable:
    """Flatten to (batch, height * width * channels), in this order."""
    return F.reshape(F.transpose(x, (0, 2, 3, 1)), (len(x), -1))
