"""Builds networks of the toy family, which have one layer."""

from collections.abc import Callable

import numpy as np

from howmanygpus.measure.models.layout import load_function
from howmanygpus.measure.models.networks import lay_out


def build(model: str, image_shape: tuple[int, int, int], num_classes: int) -> Callable:
    """Return a function from images and canonical weights to logits (batch, num_classes)."""
    ((layer, _),) = lay_out(model, num_classes).list_layers(image_shape)
    function = load_function("toys", layer)

    def predict(images: np.ndarray, weights: dict[str, np.ndarray]) -> np.ndarray:
        return function(images, weights[f"{layer.name}.kernel"])

    return predict
