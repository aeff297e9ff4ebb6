"""toy_net for the toy family."""

from collections.abc import Callable

import numpy as np

from howmanygpus.measure.frameworks.toys.layers.toy_dense import toy_dense


def build(image_shape: tuple[int, int, int], num_classes: int) -> Callable:
    """A function from images and canonical weights to logits (batch, num_classes)."""

    def predict(images: np.ndarray, weights: dict[str, np.ndarray]) -> np.ndarray:
        return toy_dense(images.reshape(len(images), -1), weights["dense.kernel"])

    return predict
