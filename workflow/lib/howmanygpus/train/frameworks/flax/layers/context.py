"""What layers of the JAX family need to know about the run."""

from dataclasses import dataclass, field

import jax.numpy as jnp
from flax import nnx

DEVICE_AXIS = "devices"
"""Name of the axis along which all devices stand; synchronized batch normalisation averages over it."""


@dataclass(frozen=True)
class LayerContext:
    """
    batchnorm: `local` or `synchronized`.
    dtype: type of the arithmetic; parameters are float32.
    seed: of what layers draw in training.
    rngs: what flax draws weights from until the canonical ones take their place.
    eval_batchnorm: `running` or `batch`, the statistics that evaluation uses.
    """

    batchnorm: str
    dtype: jnp.dtype = jnp.float32
    seed: int = 0
    rngs: nnx.Rngs = field(default_factory=lambda: nnx.Rngs(0))
    eval_batchnorm: str = "running"
