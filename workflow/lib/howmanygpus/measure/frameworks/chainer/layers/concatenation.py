"""Concatenation for the Chainer family."""

from collections.abc import Sequence

import chainer
import chainer.functions as F


def concatenate(inputs: Sequence[chainer.Variable]) -> chainer.Variable:
    """Join images of the same size along their channels, in the order given."""
    return F.concat(list(inputs), axis=1)
