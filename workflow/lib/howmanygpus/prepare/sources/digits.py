"""
Handwritten digits, 8x8 gray, ten classes: the test part of the UCI data set "Optical Recognition of Handwritten
Digits" (Alpaydin & Kaynak 1998), which is part of scikit-learn. The first 1,437 images train, the last 360 test.

Options: none.
"""

import numpy as np

from howmanygpus.prepare.sources import Arrays, Description

NUM_TRAIN = 1437
MAX_VALUE = 16
"""Largest value of a pixel, which is the number of inked cells in a block of 4x4."""


def describe() -> Description:
    return Description(image_shape=(8, 8, 1), num_classes=10, num_train=NUM_TRAIN, num_test=360)


def load() -> Arrays:
    from sklearn.datasets import load_digits

    digits = load_digits()
    images = np.rint(digits.images * (255 / MAX_VALUE)).astype(np.uint8)[..., None]
    labels = digits.target.astype(np.int32)
    return Arrays(images[:NUM_TRAIN], labels[:NUM_TRAIN], images[NUM_TRAIN:], labels[NUM_TRAIN:])
