"""
Data sets, one module each; the docstring of a module explains its options.

A module of arrays defines `describe(**options)`, which says shape and counts without touching any data, and
`load(**options)`, which returns the arrays. A module of image files defines `list_images(**options)`, which names the
files without opening them, and `PREPARATION`, how they are prepared where the options do not say otherwise. Either may
define `acquire(**options)`: what is fetched or extracted before, into the folder that the option `folder` then names.
"""

import importlib
import pkgutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

SPLITS = ("train", "test")


@dataclass(frozen=True)
class Description:
    """image_shape is (height, width, channels). multi_label: an image has any number of labels, not exactly one."""

    image_shape: tuple[int, int, int]
    num_classes: int
    num_train: int
    num_test: int
    multi_label: bool = False

    def count(self, split: str) -> int:
        return {"train": self.num_train, "test": self.num_test}[split]


@dataclass(frozen=True)
class Arrays:
    """Images are uint8 (count, height, width, channels), labels int32 (count,)."""

    train_images: np.ndarray
    train_labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray


@dataclass(frozen=True, slots=True)
class Entry:
    """One image file. path is below the listing's folder; label is a class, or the classes of a multi-label image."""

    path: str
    split: str
    label: int | tuple[int, ...]


@dataclass(frozen=True)
class Listing:
    """The image files of a data set, in the order in which they will stand in the arrays; split is train or test."""

    folder: Path
    classes: tuple[str, ...]
    entries: list[Entry]
    multi_label: bool = False


class OptionError(ValueError):
    """An option of a data set that cannot be: which, its value, what is wrong, what to do."""

    def __init__(self, option: str, value, problem: str, remedy: str):
        super().__init__(f"{option}: {value!r} {problem}; {remedy}")
        self.option, self.value, self.problem, self.remedy = option, value, problem, remedy


def list_sources() -> list[str]:
    return [module.name for module in pkgutil.iter_modules(__path__)]


def load_source(name: str):
    """The module of a data source."""
    return importlib.import_module(f"{__name__}.{name}")


def check_folder(option: str, folder: str, remedy: str) -> Path:
    if not Path(folder).is_dir():
        raise OptionError(option, folder, "is no folder here", remedy)
    return Path(folder)


def check_choice(option: str, value, choices: Iterable[str]) -> None:
    if value not in choices:
        raise OptionError(option, value, "is not known here", f"choose from {', '.join(map(str, choices))}")
