"""
Data sets, one module each; the docstring of a module explains its options.

A module of arrays defines `describe(**options)`, which returns shape and counts without reading any data, and
`load(**options)`, which returns the arrays; `list_files(**options)` names the files that are read from the option
`folder`, so that a change of them is noticed. A module of image files defines `list_images(**options)`, which names the
files without opening them, and `PREPARATION`, the defaults of its options of preparation. Either kind may define
`acquire(**options)`, which returns what must be fetched or extracted first; the option `folder` then names the result.
"""

import importlib
import pkgutil
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np


@dataclass(frozen=True)
class Description:
    """Shape and counts of a data set.

    image_shape: (height, width, channels). multi_label: an image has any number of labels instead of exactly one.
    remarks: what a user should know about the data, although it stops nothing.
    """

    image_shape: tuple[int, int, int]
    num_classes: int
    num_train: int
    num_test: int
    multi_label: bool = False
    remarks: tuple[str, ...] = ()

    def count(self, split: str) -> int:
        return {"train": self.num_train, "test": self.num_test}[split]


@dataclass(frozen=True)
class Arrays:
    """Images are uint8 (count, height, width, channels).

    Labels are int32 (count,) or, if an image has any number of them, uint8 (count, classes).
    """

    train_images: np.ndarray
    train_labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray


@dataclass(frozen=True, slots=True)
class Entry:
    """One image file.

    path: relative to the listing's folder. label: a class, or the classes of a multi-label image, and the complement ~k
    of each class k for which it is unknown whether the image has it. group: unit that stays in one split, such as a
    patient; empty if every file is its own unit.
    """

    path: str
    split: str
    label: int | tuple[int, ...]
    group: str = ""


@dataclass(frozen=True)
class Listing:
    """The image files of a data set, in the order of the arrays that are made of them.

    split: how the workflow split the files; empty if the data set has its own split. remarks: see Description. table:
    the option of this name, the path of the table of labels; empty if the data set has none.
    """

    folder: Path
    classes: tuple[str, ...]
    entries: list[Entry]
    multi_label: bool = False
    split: dict = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    table: str = ""


class OptionError(ValueError):
    """An option of a data set has a wrong value. The message names option, value, problem and remedy."""

    def __init__(self, option: str, value, problem: str, remedy: str):
        super().__init__(f"{option}: {value!r} {problem}; {remedy}")
        self.option, self.value, self.problem, self.remedy = option, value, problem, remedy


def list_sources() -> list[str]:
    return [module.name for module in pkgutil.iter_modules(__path__)]


def load_source(name: str):
    """Return the module of a data source."""
    return importlib.import_module(f"{__name__}.{name}")


def check_folder(option: str, folder: str | None, remedy: str) -> Path:
    if folder is None or not Path(folder).is_dir():
        if folder and folder.startswith("~"):
            remedy = f"write the path in full, {Path(folder).expanduser()}"
        raise OptionError(option, folder, "is not a folder here", remedy)
    return Path(folder)


def shorten_list(names: Iterable, most: int = 3) -> str:
    """Return the first names, and the number of the others."""
    names = list(map(str, names))
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def check_choice(option: str, value, choices: Iterable) -> None:
    """Raise OptionError for a value that is no choice, or equals a choice but has another type, such as 3.0 or true."""
    if not any(value == choice and type(value) is type(choice) for choice in choices):
        raise OptionError(option, value, "is not known here", f"choose from {', '.join(map(str, choices))}")
