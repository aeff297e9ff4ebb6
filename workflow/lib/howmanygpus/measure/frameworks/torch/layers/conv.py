"""Convolution of the PyTorch family."""

import torch
from torch import nn
from torch.nn import functional as F

from howmanygpus.measure.frameworks.geometry import Padding, Size, as_pair, as_sides, as_symmetric
from howmanygpus.measure.frameworks.torch.layers.context import LayerContext


class UnevenlyPaddedConv2d(nn.Conv2d):
    """Pads each side by its own number of pixels; nn.Conv2d adds the same number on opposite sides."""

    def __init__(self, sides: tuple[tuple[int, int], tuple[int, int]], *arguments, **options):
        super().__init__(*arguments, **options)
        rows, columns = sides
        self._sides = (*columns, *rows)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(F.pad(x, self._sides))


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
) -> nn.Module:
    """Return a convolution that pads with zeros."""
    channels, size = (in_channels, out_channels), as_pair(kernel)
    options = {"stride": stride, "groups": groups, "bias": use_bias}
    symmetric = as_symmetric(padding)
    if symmetric is None:
        return UnevenlyPaddedConv2d(as_sides(padding), *channels, size, **options, padding=0)
    return nn.Conv2d(*channels, size, **options, padding=symmetric)
