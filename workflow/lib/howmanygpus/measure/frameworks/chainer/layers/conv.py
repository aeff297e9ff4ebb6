"""Convolution of the Chainer family."""

import chainer
import chainer.functions as F
import chainer.links as L

from howmanygpus.measure.frameworks.chainer.layers.context import LayerContext
from howmanygpus.measure.frameworks.geometry import Padding, Size, as_pair, as_sides, as_symmetric


class UnevenlyPaddedConvolution2D(L.Convolution2D):
    """Pads each side by its own number of pixels; L.Convolution2D adds the same number on opposite sides."""

    def __init__(self, sides: tuple[tuple[int, int], tuple[int, int]], *arguments, **options):
        super().__init__(*arguments, **options)
        self._pad_width = ((0, 0), (0, 0), *sides)

    def forward(self, x: chainer.Variable) -> chainer.Variable:
        return super().forward(F.pad(x, self._pad_width, "constant", constant_values=0.0))


def conv(
    context: LayerContext,
    in_channels: int,
    out_channels: int,
    kernel: Size,
    *,
    stride: int,
    padding: Padding,
    groups: int = 1,
    use_bias: bool,
) -> chainer.Link:
    """Return a convolution that pads with zeros."""
    channels, options = (in_channels, out_channels), {"ksize": as_pair(kernel), "stride": stride}
    options |= {"groups": groups, "nobias": not use_bias}
    symmetric = as_symmetric(padding)
    if symmetric is None:
        return UnevenlyPaddedConvolution2D(as_sides(padding), *channels, **options, pad=0)
    return L.Convolution2D(*channels, **options, pad=symmetric)
