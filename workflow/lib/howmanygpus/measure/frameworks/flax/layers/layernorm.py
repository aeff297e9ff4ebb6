"""Layer normalisation of the JAX family."""

from flax import nnx

from howmanygpus.measure.frameworks.flax.layers.context import LayerContext


def layernorm(context: LayerContext, features: int, *, epsilon: float) -> nnx.Module:
    """Normalises the last axis by its mean and its biased variance."""
    options = {"use_bias": True, "use_scale": True, "use_fast_variance": False}
    return nnx.LayerNorm(features, epsilon=epsilon, **options, dtype=context.dtype, rngs=context.rngs)
