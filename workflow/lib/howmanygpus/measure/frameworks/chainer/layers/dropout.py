"""Dropout of the Chainer family, by the draws of measure.models.dropout_draws."""

from typing import Any

import chainer

from howmanygpus.measure.frameworks.chainer.layers.context import LayerContext
from howmanygpus.measure.models.dropout_draws import (
    compute_drop_threshold,
    draw_units,
    factors_of_image,
    factors_of_units,
    mix_step,
    multiply_sums,
)


class ImageKeys:
    """Maps uint8 images (batch, height, width, channels) to their keys. `steps`: optimizer steps taken so far."""

    def __init__(self, seed: int, image_shape: tuple[int, int, int]):
        self.steps, self._factors = 0, factors_of_image(seed, image_shape)

    def __call__(self, images: Any) -> Any:
        xp = chainer.backend.get_array_module(images)
        self._factors = xp.asarray(self._factors)
        columns = images.sum(axis=1, dtype=xp.int64).reshape(len(images), -1)
        sums = xp.concatenate([images.sum(axis=(2, 3), dtype=xp.int64), columns], axis=1)
        return mix_step(multiply_sums(sums, self._factors[:, 1:]).sum(-1), self._factors[:, 0], self.steps)


class Dropout:
    def __init__(self, name: str, num_units: int, rate: float):
        self._factors, self._rate = factors_of_units(name, num_units), rate

    def __call__(self, x: chainer.Variable, keys: Any) -> chainer.Variable:
        if keys is None:
            return x
        self._factors = chainer.backend.get_array_module(keys).asarray(self._factors)
        is_kept = draw_units(keys, self._factors) >= compute_drop_threshold(self._rate)
        return x * (is_kept.astype(x.dtype) / x.dtype.type(1.0 - self._rate))


def image_keys(context: LayerContext, image_shape: tuple[int, int, int]) -> ImageKeys:
    """Return the layer that computes the keys of images. image_shape: (height, width, channels)."""
    return ImageKeys(context.seed, image_shape)


def dropout(context: LayerContext, name: str, num_units: int, *, rate: float) -> Dropout:
    """Return a layer of (batch, num_units) and the images' keys, None in evaluation. Layers draw by their `name`."""
    return Dropout(name, num_units, rate)
