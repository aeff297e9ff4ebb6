"""Dropout of the JAX family, by the draws of measure.models.dropout_draws."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from howmanygpus.measure.frameworks.flax.layers.context import LayerContext
from howmanygpus.measure.models.dropout_draws import (
    compute_drop_threshold,
    draw_units,
    factors_of_image,
    factors_of_units,
    mix_step,
    multiply_sums,
)


class ImageKeys(nnx.Module):
    """Maps uint8 images (batch, height, width, channels) to their keys. steps: optimizer steps taken so far."""

    def __init__(self, seed: int, image_shape: tuple[int, int, int]):
        self.seed, self.image_shape = seed, image_shape

    def __call__(self, images: jax.Array, steps: jax.Array) -> jax.Array:
        factors = factors_of_image(self.seed, self.image_shape).astype(np.uint32)
        columns = images.sum(axis=1, dtype=jnp.uint32).reshape(len(images), -1)
        sums = jnp.concatenate([images.sum(axis=(2, 3), dtype=jnp.uint32), columns], axis=1)
        words = multiply_sums(sums, factors[:, 1:]).sum(-1, dtype=jnp.uint32)
        return mix_step(words, factors[:, 0], steps.astype(jnp.uint32))


class Dropout(nnx.Module):
    def __init__(self, name: str, num_units: int, rate: float):
        self.name, self.num_units, self.rate = name, num_units, rate

    def __call__(self, x: jax.Array, keys: jax.Array | None) -> jax.Array:
        if keys is None:
            return x
        factors = factors_of_units(self.name, self.num_units).astype(np.uint32)
        is_kept = draw_units(keys, factors) >= compute_drop_threshold(self.rate)
        return x * is_kept.astype(x.dtype) / (1.0 - self.rate)


def image_keys(context: LayerContext, image_shape: tuple[int, int, int]) -> nnx.Module:
    """Return the layer that computes the keys of images. image_shape: (height, width, channels)."""
    return ImageKeys(context.seed, image_shape)


def dropout(context: LayerContext, name: str, num_units: int, *, rate: float) -> nnx.Module:
    """Return a layer of (batch, num_units) and the images' keys, None in evaluation. Layers draw by their `name`."""
    return Dropout(name, num_units, rate)
