"""
Data sets, one module each.

A module defines `describe(**options)`, which says shape and counts without touching any data, and
`load(**options)`, which returns the arrays. The docstring of the module explains its options.
"""

import importlib
import pkgutil
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Description:
    """image_shape is (height, width, channels)."""

    image_shape: tuple[int, int, int]
    num_classes: int
    num_train: int
    num_test: int


@dataclass(frozen=True)
class Arrays:
    """Images are uint8 (count, height, width, channels), labels int32 (count,)."""

    train_images: np.ndarray
    train_labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray


def list_sources() -> list[str]:
    return [module.name for module in pkgutil.iter_modules(__path__)]


def load_source(name: str):
    """The module of a data source."""
    return importlib.import_module(f"{__name__}.{name}")
