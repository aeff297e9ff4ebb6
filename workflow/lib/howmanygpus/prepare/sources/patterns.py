"""
Generated images that a network can learn, for machines without any real ones: stripes whose direction is the class,
with a random phase and noise in each image.

Options: image_shape ([height, width, channels]), num_classes, num_train, num_test.
"""

import numpy as np

from howmanygpus.prepare.sources import Arrays, Description

SEEDS = {"train": 20170729, "test": 20170730}
STRIPES = 3.0
"""Number of stripes across an image."""
CONTRAST, NOISE = 50.0, 60.0
"""Amplitude of the stripes, and largest deviation of the noise, in levels of 255."""
BLOCK = 1024


def describe(image_shape, num_classes: int, num_train: int, num_test: int) -> Description:
    return Description(tuple(image_shape), num_classes, num_train, num_test)


def load(image_shape, num_classes: int, num_train: int, num_test: int) -> Arrays:
    description = describe(image_shape, num_classes, num_train, num_test)
    parts: dict[str, np.ndarray] = {}
    for split in ("train", "test"):
        random = np.random.Generator(np.random.Philox(key=SEEDS[split]))
        labels = random.integers(num_classes, size=description.count(split), dtype=np.int32)
        blocks = [draw(random, labels[first : first + BLOCK], description) for first in range(0, len(labels), BLOCK)]
        parts |= {f"{split}_images": np.concatenate(blocks), f"{split}_labels": labels}
    return Arrays(**parts)


def draw(random: np.random.Generator, labels: np.ndarray, description: Description) -> np.ndarray:
    """Return the images of some labels, uint8 (count, height, width, channels)."""
    height, width, channels = description.image_shape
    rows, columns = np.meshgrid(np.arange(height) / height, np.arange(width) / width, indexing="ij")
    angles = np.pi * labels / description.num_classes
    across = np.cos(angles)[:, None, None] * columns + np.sin(angles)[:, None, None] * rows
    phases = random.uniform(0, 2 * np.pi, len(labels))[:, None, None]
    stripes = CONTRAST * np.sin(2 * np.pi * STRIPES * across + phases)
    noise = random.uniform(-NOISE, NOISE, (len(labels), height, width, channels))
    return np.rint(127.5 + stripes[..., None] + noise).astype(np.uint8)
