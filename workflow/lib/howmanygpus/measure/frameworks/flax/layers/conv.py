"""Convolution of the JAX family."""

from flax import nnx

from howmanygpus.measure.frameworks.flax.layers.context import LayerContext
from howmanygpus.measure.frameworks.geometry import Padding, Size, as_pair, as_sides


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
) -> nnx.Module:
    """Return a convolution that pads with zeros."""
    return nnx.Conv(
        in_channels,
        out_channels,
        as_pair(kernel),
        strides=(stride, stride),
        padding=as_sides(padding),
        feature_group_count=groups,
        use_bias=use_bias,
        dtype=context.dtype,
        rngs=context.rngs,
    )
