"""
Keys of images, by which a model that drops units draws them (train.models.dropping).

They are written out here with Python's integers, which share nothing with what the frameworks compute, so that a
mistake there is seen.
"""

from typing import Any

import numpy as np

from howmanygpus.train.models.dropping import PRIME, factors_of_image


def compute_key(image: np.ndarray, seed: int, step: int) -> list[int]:
    """image: uint8 (height, width, channels); step: counts from 1."""
    pixels = image.astype(int)
    sums = [1, *pixels.sum(axis=(1, 2)).tolist(), *pixels.sum(axis=0).ravel().tolist()]
    rows = factors_of_image(seed, image.shape).tolist()
    contents = [sum(one * factor for one, factor in zip(sums, row, strict=True)) for row in rows]
    return [pow(content + step - 1, 3, PRIME) for content in contents]


def find_keys(network: Any, images: np.ndarray, step: int) -> list[np.ndarray]:
    """Return what the network is called with besides the images: their keys, or nothing if it drops no units."""
    if not hasattr(network, "image_keys"):
        return []
    return [np.array([compute_key(image, network.image_keys.seed, step) for image in images])]
