"""
Generated images that a network can learn, for machines without any real ones: stripes whose direction is the class,
with a random phase and noise in each image.

Options: image_shape ([height, width, channels]), num_classes, num_train, num_test; multi_label: true draws images with
any number of labels instead, each with probability 0.3 and with its own stripes.
"""

import math

import numpy as np

from howmanygpus.prepare.sources import Arrays, Description, check_choice

SEEDS = {"train": 20170729, "test": 20170730}
STRIPES = 3.0
"""Number of stripes across an image."""
CONTRAST, NOISE = 50.0, 60.0
"""Amplitude of the stripes, and largest deviation of the noise, in levels of 255."""
PRESENT = 0.3
"""Probability of each label of an image with any number of them."""
BLOCK, LARGEST_BLOCK = 1024, 2**26
"""Number of images drawn at a time, and the largest number of their values, so that they fit in memory."""


def describe(image_shape, num_classes: int, num_train: int, num_test: int, multi_label: bool = False) -> Description:
    check_choice("multi_label", multi_label, (False, True))
    return Description(tuple(image_shape), num_classes, num_train, num_test, multi_label)


def load(image_shape, num_classes: int, num_train: int, num_test: int, multi_label: bool = False) -> Arrays:
    description = describe(image_shape, num_classes, num_train, num_test, multi_label)
    parts: dict[str, np.ndarray] = {}
    for split in ("train", "test"):
        random = np.random.Generator(np.random.Philox(key=SEEDS[split]))
        labels = draw_labels(random, description, description.count(split))
        size = max(1, min(BLOCK, LARGEST_BLOCK // math.prod(description.image_shape)))
        blocks = [draw(random, labels[first : first + size], description) for first in range(0, len(labels), size)]
        parts |= {f"{split}_images": np.concatenate(blocks), f"{split}_labels": labels}
    return Arrays(**parts)


def draw_labels(random: np.random.Generator, description: Description, count: int) -> np.ndarray:
    """Return int32 (count,) or, if an image has any number of labels, uint8 (count, classes)."""
    if description.multi_label:
        return (random.random((count, description.num_classes)) < PRESENT).astype(np.uint8)
    return random.integers(description.num_classes, size=count, dtype=np.int32)


def draw(random: np.random.Generator, labels: np.ndarray, description: Description) -> np.ndarray:
    """Return the images of some labels, uint8 (count, height, width, channels)."""
    if not description.multi_label:
        return add_noise(random, draw_stripes(random, labels, description), description)
    stripes = np.zeros((len(labels), *description.image_shape[:2]))
    for label in range(description.num_classes):
        own = draw_stripes(random, np.full(len(labels), label), description)
        stripes += labels[:, label, None, None] * own
    # Several labels together stay within the levels of an image.
    stripes /= np.sqrt(np.maximum(1, labels.sum(axis=1)))[:, None, None]
    return add_noise(random, stripes, description)


def draw_stripes(random: np.random.Generator, labels: np.ndarray, description: Description) -> np.ndarray:
    """Return the stripes of one label for each image, float64 (count, height, width)."""
    height, width, _ = description.image_shape
    rows, columns = np.meshgrid(np.arange(height) / height, np.arange(width) / width, indexing="ij")
    angles = np.pi * labels / description.num_classes
    across = np.cos(angles)[:, None, None] * columns + np.sin(angles)[:, None, None] * rows
    phases = random.uniform(0, 2 * np.pi, len(labels))[:, None, None]
    return CONTRAST * np.sin(2 * np.pi * STRIPES * across + phases)


def add_noise(random: np.random.Generator, stripes: np.ndarray, description: Description) -> np.ndarray:
    noise = random.uniform(-NOISE, NOISE, (len(stripes), *description.image_shape))
    return np.clip(np.rint(127.5 + stripes[..., None] + noise), 0, 255).astype(np.uint8)
