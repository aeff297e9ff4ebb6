"""Mean and standard deviation over many images, from exact sums, so that neither order nor memory matters."""

import math
from collections.abc import Iterable
from fractions import Fraction

import numpy as np

BLOCK_PIXELS = 2**20
MIN_STD = 1e-3
"""Smallest standard deviation. Images are divided by it, so it must not be zero."""


def sum_levels(image: np.ndarray) -> tuple[list[int], list[int]]:
    """Return the sums of an image's levels and of their squares, by channel. image: uint8, channels last."""
    pixels = image.reshape(-1, image.shape[-1])
    levels, squares = np.zeros((2, image.shape[-1]), np.int64)
    for start in range(0, len(pixels), BLOCK_PIXELS):
        block = pixels[start : start + BLOCK_PIXELS].astype(np.uint32)
        levels += block.sum(axis=0, dtype=np.int64)
        squares += (block * block).sum(axis=0, dtype=np.int64)
    return levels.tolist(), squares.tolist()


def mean_and_std(sums: Iterable[tuple[list[int], list[int]]], pixels_per_image: int) -> tuple[list[float], list[float]]:
    """Return mean and standard deviation of each channel over all images, in levels of 0 to 255.

    sums: result of sum_levels() for each image. No standard deviation is below MIN_STD.
    """
    count, totals = 0, np.zeros((2, 1), np.int64)
    for levels_and_squares in sums:
        totals = totals + np.array(levels_and_squares)
        count += pixels_per_image
    levels, squares = totals.tolist()
    means = [Fraction(total, count) for total in levels]
    variances = [Fraction(total, count) - mean**2 for total, mean in zip(squares, means, strict=True)]
    return [float(mean) for mean in means], [max(math.sqrt(variance), MIN_STD) for variance in variances]
