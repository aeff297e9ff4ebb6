"""Shortcut without parameters for the Keras family (option A of He et al. 2016, arXiv:1512.03385)."""

from keras import KerasTensor, ops


def shortcut(x: KerasTensor, *, stride: int, new_channels: int) -> KerasTensor:
    """Every `stride`-th pixel of the rows and columns, followed by `new_channels` channels of zeros."""
    return ops.pad(x[:, ::stride, ::stride, :], ((0, 0), (0, 0), (0, 0), (0, new_channels)))
