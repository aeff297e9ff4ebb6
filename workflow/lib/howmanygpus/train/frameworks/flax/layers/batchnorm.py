"""Batch normalisation of the JAX family."""

from flax import nnx

from howmanygpus.train.frameworks.flax.layers.context import DEVICE_AXIS, LayerContext


def batchnorm(context: LayerContext, channels: int, *, epsilon: float, momentum: float) -> nnx.Module:
    """momentum: weight of the old running statistic."""
    axis_name = DEVICE_AXIS if context.batchnorm == "synchronized" else None
    options = {"epsilon": epsilon, "momentum": momentum, "axis_name": axis_name}
    return nnx.BatchNorm(channels, **options, dtype=context.dtype, rngs=context.rngs)
