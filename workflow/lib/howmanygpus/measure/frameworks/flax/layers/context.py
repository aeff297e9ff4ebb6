"""Settings of the run that layers of the JAX family depend on."""

from dataclasses import dataclass, field

import jax.numpy as jnp
from flax import nnx

DEVICE_AXIS = "devices"
"""Name of the axis of all devices; synchronized batch normalisation averages over it."""


@dataclass(frozen=True)
class LayerContext:
    """
    batchnorm: `local` or `synchronized`.
    dtype: type of the arithmetic; parameters are float32.
    seed: seed of the layers' random draws in training.
    rngs: random streams for flax's own weights, which the canonical ones replace.
    eval_batchnorm: the statistics that evaluation uses: `batch`, or running ones, whose devices the backend chooses.
    """

    batchnorm: str
    dtype: jnp.dtype = jnp.float32
    seed: int = 0
    rngs: nnx.Rngs = field(default_factory=lambda: nnx.Rngs(0))
    eval_batchnorm: str = "running"
