"""Concatenation for the Keras family."""

from collections.abc import Sequence

from keras import KerasTensor, ops


def concatenate(inputs: Sequence[KerasTensor]) -> KerasTensor:
    """Join images of the same size along their channels, in the order given."""
    return ops.concatenate(list(inputs), axis=-1)
