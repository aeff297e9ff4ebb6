"""
Random images and labels, uniform over all values: what a run costs without reading or preparing real images.

Options: image_shape ([height, width, channels]), num_classes, num_train, num_test.
"""

import numpy as np

from benchreport.datasets import Arrays, Description

SEED = 20170725


def describe(image_shape, num_classes: int, num_train: int, num_test: int) -> Description:
    return Description(tuple(image_shape), num_classes, num_train, num_test)


def load(image_shape, num_classes: int, num_train: int, num_test: int) -> Arrays:
    words = np.random.Philox(key=SEED)

    def draw(count: int, shape) -> np.ndarray:
        size = count * int(np.prod(shape))
        return words.random_raw(-(-size // 8)).astype("<u8").view(np.uint8)[:size].reshape(count, *shape)

    def draw_labels(count: int) -> np.ndarray:
        return (words.random_raw(count) % np.uint64(num_classes)).astype(np.int32)

    train_images, test_images = draw(num_train, image_shape), draw(num_test, image_shape)
    return Arrays(train_images, draw_labels(num_train), test_images, draw_labels(num_test))
