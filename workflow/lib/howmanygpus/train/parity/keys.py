"""
Keys of images, from which a model with dropout draws the units to drop (train.models.dropping).

They are computed here with Python's integers and share nothing with the frameworks' code, so that a mistake there is
seen.
"""

from typing import Any

import numpy as np

from howmanygpus.train.models.dropping import PRIME, factors_of_image


def compute_key(image: np.ndarray, seed: int, step: int) -> list[int]:
    """Return the words of an image's key. image: uint8 (height, width, channels); step: counts from 1."""
    pixels = image.astype(int)
    sums = [1, *pixels.sum(axis=(1, 2)).tolist(), *pixels.sum(axis=0).ravel().tolist()]
    rows = factors_of_image(seed, image.shape).tolist()
    contents = [sum(one * factor for one, factor in zip(sums, row, strict=True)) for row in rows]
    return [pow(content + step - 1, 3, PRIME) for content in contents]


def compute_keys(network: Any, images: np.ndarray, step: int) -> list[np.ndarray]:
    """Return the network's arguments besides the images: their keys, or none if the network has no dropout."""
    if not hasattr(network, "image_keys"):
        return []
    return [np.array([compute_key(image, network.image_keys.seed, step) for image in images])]
