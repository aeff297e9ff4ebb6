"""Convolution of the MXNet Gluon family."""

from typing import Any

from mxnet.gluon import nn

from howmanygpus.measure.frameworks.geometry import Padding, Size, as_pair, as_sides, as_symmetric
from howmanygpus.measure.frameworks.gluon.layers.context import LayerContext


class UnevenlyPaddedConv2D(nn.Conv2D):
    """Pads each side by its own number of pixels; nn.Conv2D adds the same number on opposite sides."""

    def __init__(self, sides: tuple[tuple[int, int], tuple[int, int]], *arguments, **options):
        super().__init__(*arguments, **options)
        rows, columns = sides
        self._pad_width = (0, 0, 0, 0, *rows, *columns)

    def hybrid_forward(self, F, x, weight, bias=None):
        padded = F.pad(x, mode="constant", pad_width=self._pad_width, constant_value=0.0)
        return super().hybrid_forward(F, padded, weight, bias)


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
) -> nn.HybridBlock:
    """Return a convolution that pads with zeros."""
    size = as_pair(kernel)
    options: dict[str, Any] = {"in_channels": in_channels, "use_bias": use_bias}
    options |= {"strides": (stride, stride), "groups": groups}
    symmetric = as_symmetric(padding)
    if symmetric is None:
        return UnevenlyPaddedConv2D(as_sides(padding), out_channels, size, **options, padding=(0, 0))
    return nn.Conv2D(out_channels, size, **options, padding=symmetric)
