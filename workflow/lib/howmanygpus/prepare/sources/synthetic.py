"""
Random images and labels, uniform over all values, to measure runs without reading or preparing real images.

Options: image_shape ([height, width, channels]), num_classes, num_train, num_test.
"""

from collections.abc import Iterator

import numpy as np

from howmanygpus.prepare.sources import Arrays, Description

SEEDS = {"train": 20170725, "test": 20170726}
LABEL_SEEDS = {"train": 20170727, "test": 20170728}
BLOCK_BYTES = 2**25


def describe(image_shape, num_classes: int, num_train: int, num_test: int) -> Description:
    return Description(tuple(image_shape), num_classes, num_train, num_test)


def load(image_shape, num_classes: int, num_train: int, num_test: int) -> Arrays:
    description = describe(image_shape, num_classes, num_train, num_test)
    parts = {}
    for split in ("train", "test"):
        parts[f"{split}_images"] = np.concatenate(list(draw_images(description, split)))
        parts[f"{split}_labels"] = draw_labels(description, split)
    return Arrays(**parts)


def draw_images(description: Description, split: str) -> Iterator[np.ndarray]:
    """Yield the images of a split in blocks, uint8 (count, height, width, channels)."""
    words, size = np.random.Philox(key=SEEDS[split]), int(np.prod(description.image_shape))
    remaining, per_block = description.count(split), max(1, BLOCK_BYTES // size)
    while remaining:
        count = min(per_block, remaining)
        block = words.random_raw(-(-count * size // 8)).astype("<u8").view(np.uint8)[: count * size]
        yield block.reshape(count, *description.image_shape)
        remaining -= count


def draw_labels(description: Description, split: str) -> np.ndarray:
    words = np.random.Philox(key=LABEL_SEEDS[split]).random_raw(description.count(split))
    return (words % np.uint64(description.num_classes)).astype(np.int32)


def draw_several_labels(description: Description, split: str) -> np.ndarray:
    """Draw labels of images with any number of them, uint8 (count, classes): each with probability one half."""
    shape = (description.count(split), description.num_classes)
    words = np.random.Philox(key=LABEL_SEEDS[split]).random_raw(shape[0] * shape[1])
    return (words >> np.uint64(63)).astype(np.uint8).reshape(shape)
