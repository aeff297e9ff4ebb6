"""small_cnn for the toy family, whose prediction is constant."""

from collections.abc import Callable

import numpy as np


def build(image_shape: tuple[int, int, int], num_classes: int) -> Callable:
    return lambda images, weights: np.zeros((len(images), num_classes), np.float32)
