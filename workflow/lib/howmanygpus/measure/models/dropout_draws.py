"""
Draw the units that dropout drops, from seed, optimizer step, image, layer and unit, identically in every framework.

Frameworks' own generators draw by their own streams, and differently on each device. Here, an image's key is a hash of
its pixels, of the seed and of the step. It is computed on the device, so that every strategy, number of devices and
order of the images has the same draws without another input. Images of the same pixels lose the same units in a step.

All hashes are sums of products modulo PRIME, with random factors (Carter & Wegman 1979, doi:10.1016/0022-0000(79)
90044-8). No number exceeds 32 bits, so that JAX needs no more than uint32 and no framework needs operations on bits.
The hash of an image is computed from the sums of its rows and of its columns. The step is added, and the sum is cubed,
so that the draws of one step say nothing about the next. No two numbers have the same cube, because 3 does not divide
PRIME - 1.
"""

import zlib
from functools import cache
from typing import Any

import numpy as np

PRIME = 65519
"""The largest prime below 2**16 for which PRIME - 1 is no multiple of 3."""
WORDS = 2
"""Number of words of a key, each below PRIME."""


def draw_factors(seed: int, name: str, *shape: int) -> np.ndarray:
    """Draw integers from 0 to PRIME - 1."""
    philox = np.random.Philox(key=[seed, zlib.crc32(name.encode())])
    return (philox.random_raw(int(np.prod(shape))) % PRIME).astype(np.int64).reshape(shape)


@cache
def factors_of_image(seed: int, image_shape: tuple[int, int, int]) -> np.ndarray:
    """Return factors for the seed and the sums of rows and columns: (WORDS, 1 + height + width * channels)."""
    height, width, channels = image_shape
    return draw_factors(seed, "image", WORDS, 1 + height + width * channels)


@cache
def factors_of_units(layer: str, num_units: int) -> np.ndarray:
    """Return factors for the words of a key, and an added constant: (WORDS + 1, num_units)."""
    return draw_factors(0, layer, WORDS + 1, num_units)


def compute_drop_threshold(rate: float) -> int:
    """Return the threshold: a unit whose draw is below it is dropped."""
    return round(rate * PRIME)


def multiply_sums(sums: Any, factors: Any) -> Any:
    """Return the products that make up the words of keys: (images, WORDS, sums). sums: integers (images, sums)."""
    return sums[:, None] % PRIME * factors % PRIME


def mix_step(words: Any, factors_of_seed: Any, step: Any) -> Any:
    """Return keys (images, WORDS). words: sums of the products; step: optimizer steps taken before this one."""
    mixed = (words + factors_of_seed + step) % PRIME
    return mixed * mixed % PRIME * mixed % PRIME


def draw_units(keys: Any, factors: Any) -> Any:
    """Return integers from 0 to PRIME - 1 (images, units). factors: result of factors_of_units."""
    return (keys[:, :1] * factors[0] % PRIME + keys[:, 1:] * factors[1] % PRIME + factors[2]) % PRIME
