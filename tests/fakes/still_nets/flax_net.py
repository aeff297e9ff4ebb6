"""A network with arrays that stay at initial values that fit into bfloat16, for tests of the parity gate."""

import jax
import jax.numpy as jnp
from flax import nnx


class StillNet(nnx.Module):
    """The gradients of the gate and of the branch's scale are zero."""

    def __init__(self, channels: int, num_classes: int, width: int, rngs: nnx.Rngs):
        self.first = nnx.Linear(channels, width, rngs=rngs)
        self.norm = nnx.LayerNorm(width, rngs=rngs)
        self.gate = nnx.Param(jnp.zeros(()))
        self.branch_scale = nnx.Param(jnp.ones(width))
        self.last = nnx.Linear(width, num_classes, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        x = nnx.relu(self.first(x.mean(axis=(1, 2))))
        return self.last(self.norm(x) + self.gate[...] * (0.0 * x * self.branch_scale[...]))


def build(image_shape, num_classes, *, rngs: nnx.Rngs, width: int = 16, depth: int = 2) -> nnx.Module:
    return StillNet(image_shape[2], num_classes, width, rngs)
