"""Batch normalisation of the JAX family."""

import jax
import jax.numpy as jnp
from flax import nnx

from howmanygpus.measure.frameworks.flax.layers.context import DEVICE_AXIS, LayerContext


class BatchNormByBatch(nnx.BatchNorm):
    """Evaluates by the statistics of its batch on the device instead of the running ones."""

    def __call__(self, x, use_running_average=None, *, mask=None):
        if not self.use_running_average:
            return super().__call__(x, use_running_average, mask=mask)
        wide = x.astype(jnp.float32)
        axes = tuple(range(x.ndim - 1))
        factor = jax.lax.rsqrt(wide.var(axis=axes) + self.epsilon) * self.scale[...]
        return ((wide - wide.mean(axis=axes)) * factor + self.bias[...]).astype(self.dtype)


def batchnorm(context: LayerContext, channels: int, *, epsilon: float, momentum: float) -> nnx.Module:
    """momentum: weight of the old running statistic."""
    axis_name = DEVICE_AXIS if context.batchnorm == "synchronized" else None
    options = {"epsilon": epsilon, "momentum": momentum, "axis_name": axis_name}
    layer = BatchNormByBatch if context.eval_batchnorm == "batch" else nnx.BatchNorm
    return layer(channels, **options, dtype=context.dtype, rngs=context.rngs)
