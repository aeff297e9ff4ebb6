"""Dropout of the Keras family, by the draws of measure.models.dropout_draws."""

from collections.abc import Callable

import keras
from keras import KerasTensor, layers, ops

from howmanygpus.measure.frameworks.keras.layers.context import LayerContext
from howmanygpus.measure.models.dropout_draws import (
    WORDS,
    compute_drop_threshold,
    draw_units,
    factors_of_image,
    factors_of_units,
    mix_step,
    multiply_sums,
)


class ImageKeys(layers.Layer):
    """Maps uint8 images (batch, height, width, channels) to their keys."""

    _count_steps: Callable

    def __init__(self, seed: int, image_shape: tuple[int, int, int], **options):
        super().__init__(**options)
        self._seed, self._image_shape = seed, image_shape

    def follow(self, optimizer: keras.optimizers.Optimizer) -> None:
        """Count the steps of the optimizer. A function hides its counter, which is no weight of this layer."""
        self._count_steps = lambda: getattr(optimizer, "steps", optimizer.iterations)

    def compute_output_spec(self, images, training=None) -> KerasTensor:
        return KerasTensor((images.shape[0], WORDS), "int64")

    def call(self, images, training=None):
        pixels, factors = ops.cast(images, "float32"), factors_of_image(self._seed, self._image_shape)
        # In float32 the sums of so few bytes are exact.
        columns = ops.sum(pixels, axis=1)
        columns = ops.reshape(columns, (-1, columns.shape[1] * columns.shape[2]))
        sums = ops.cast(ops.concatenate([ops.sum(pixels, axis=(2, 3)), columns], axis=1), "int64")
        steps = ops.cast(self._count_steps(), "int64") if training else ops.zeros((), "int64")
        return mix_step(ops.sum(multiply_sums(sums, factors[:, 1:]), axis=-1), factors[:, 0], steps)


class Dropout(layers.Layer):
    def __init__(self, num_units: int, rate: float, **options):
        super().__init__(**options)
        self._num_units, self._rate = num_units, rate

    def compute_output_spec(self, x, keys, training=None) -> KerasTensor:
        return KerasTensor(x.shape, self.compute_dtype)

    def call(self, x, keys, training=None):
        if not training:
            return x
        is_kept = draw_units(keys, factors_of_units(self.name, self._num_units)) >= compute_drop_threshold(self._rate)
        return x * ops.cast(is_kept, x.dtype) / (1.0 - self._rate)


def image_keys(context: LayerContext) -> KerasTensor:
    """Return the keys of the network's images."""
    return ImageKeys(context.seed, tuple(context.images.shape[1:]), name="image_keys")(context.images)


def dropout(context: LayerContext, x: KerasTensor, name: str, keys: KerasTensor, *, rate: float) -> KerasTensor:
    """Apply dropout. x: (batch, units). keys: keys of the images. Layers draw by their `name`."""
    return Dropout(x.shape[-1], rate, name=name)(x, keys)
