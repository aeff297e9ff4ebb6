"""Fully connected layer of the JAX family, with a bias."""

from flax import nnx

from howmanygpus.measure.frameworks.flax.layers.context import LayerContext


def dense(context: LayerContext, in_features: int, out_features: int) -> nnx.Module:
    """Return a layer that acts on the last axis."""
    return nnx.Linear(in_features, out_features, use_bias=True, dtype=context.dtype, rngs=context.rngs)
