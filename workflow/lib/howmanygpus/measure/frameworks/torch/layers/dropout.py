"""Dropout of the PyTorch family, by the draws of measure.models.dropout_draws."""

import torch
from torch import nn

from howmanygpus.measure.frameworks.torch.layers.context import LayerContext
from howmanygpus.measure.models.dropout_draws import (
    compute_drop_threshold,
    draw_units,
    factors_of_image,
    factors_of_units,
    mix_step,
    multiply_sums,
)


class ImageKeys(nn.Module):
    """Maps uint8 images (batch, height, width, channels) to their keys. `steps`: optimizer steps taken so far."""

    steps: torch.Tensor

    def __init__(self, seed: int, image_shape: tuple[int, int, int]):
        super().__init__()
        self.seed = seed
        self.register_buffer("factors", torch.from_numpy(factors_of_image(seed, image_shape)), persistent=False)
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64), persistent=False)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        rows, columns = images.sum((2, 3), dtype=torch.int64), images.sum(1, dtype=torch.int64)
        sums = torch.cat([rows, columns.flatten(1)], dim=1)
        return mix_step(multiply_sums(sums, self.factors[:, 1:]).sum(-1), self.factors[:, 0], self.steps)


class Dropout(nn.Module):
    def __init__(self, name: str, num_units: int, rate: float):
        super().__init__()
        self._rate = rate
        self.register_buffer("factors", torch.from_numpy(factors_of_units(name, num_units)), persistent=False)

    def forward(self, x: torch.Tensor, keys: torch.Tensor | None) -> torch.Tensor:
        if keys is None:
            return x
        is_kept = draw_units(keys, self.factors) >= compute_drop_threshold(self._rate)
        return x * is_kept / (1.0 - self._rate)


def image_keys(context: LayerContext, image_shape: tuple[int, int, int]) -> nn.Module:
    """Return the layer that computes the keys of images. image_shape: (height, width, channels)."""
    return ImageKeys(context.seed, image_shape)


def dropout(context: LayerContext, name: str, num_units: int, *, rate: float) -> nn.Module:
    """Return a layer of (batch, num_units) and the images' keys, None in evaluation. Layers draw by their `name`."""
    return Dropout(name, num_units, rate)
