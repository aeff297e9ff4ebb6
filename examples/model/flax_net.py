"""A small convolutional network in plain flax, as a model file of the workflow; docs/own_model.md explains it."""

import jax
import jax.numpy as jnp
from flax import nnx


class Block(nnx.Module):
    """Two convolutions with BatchNorm around a shortcut."""

    def __init__(self, channels: int, dtype: jnp.dtype, rngs: nnx.Rngs):
        self.conv1 = nnx.Conv(channels, channels, (3, 3), use_bias=False, dtype=dtype, rngs=rngs)
        self.norm1 = nnx.BatchNorm(channels, dtype=dtype, rngs=rngs)
        self.conv2 = nnx.Conv(channels, channels, (3, 3), use_bias=False, dtype=dtype, rngs=rngs)
        self.norm2 = nnx.BatchNorm(channels, dtype=dtype, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        y = nnx.relu(self.norm1(self.conv1(x)))
        return nnx.relu(x + self.norm2(self.conv2(y)))


class Net(nnx.Module):
    def __init__(self, channels: int, num_classes: int, width: int, depth: int, dtype: jnp.dtype, rngs: nnx.Rngs):
        self.first = nnx.Conv(channels, width, (3, 3), dtype=dtype, rngs=rngs)
        self.blocks = nnx.List([Block(width, dtype, rngs) for _ in range(depth)])
        self.last = nnx.Linear(width, num_classes, dtype=dtype, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return self.last(x.mean(axis=(1, 2)))


def build(
    image_shape, num_classes, *, rngs: nnx.Rngs, dtype=jnp.float32, width: int = 16, depth: int = 2
) -> nnx.Module:
    """From normalised images (batch, height, width, channels) to logits. image_shape: height, width, channels."""
    return Net(image_shape[2], num_classes, width, depth, dtype, rngs)
