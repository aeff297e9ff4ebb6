"""
Any folder of images in a tree `split/class/file`. Classes are the folders of the training split, in the order of their
names; every file in them that is not hidden is an image.

Options: folder; train, test (the folders of the two splits, `train` and `test`); and those of preparation/options.py.
"""

import os
from pathlib import Path

from benchreport.datasets import Entry, Listing, OptionError, check_folder
from benchreport.preparation.options import Preparation

PREPARATION = Preparation()


def list_images(folder: str, train: str = "train", test: str = "test") -> Listing:
    root = check_folder("folder", folder, "name a folder with the images")
    for option, name in (("train", train), ("test", test)):
        if not (root / name).is_dir():
            raise OptionError(option, name, f"is no folder of {folder}", f"there are {_names_of_folders(root)}")
    classes = _names_of_folders(root / train)
    unknown = sorted(set(_names_of_folders(root / test)) - set(classes))
    if unknown:
        raise OptionError("test", test, f"has a class {unknown[0]} that {train} has not", "correct the folders")
    numbers = {name: number for number, name in enumerate(classes)}
    entries = [
        Entry(path, split, numbers[name])
        for split, split_folder in (("train", train), ("test", test))
        for name in _names_of_folders(root / split_folder)
        for path in _files(root, f"{split_folder}/{name}")
    ]
    return Listing(root, tuple(classes), entries)


def _names_of_folders(folder: Path) -> list[str]:
    with os.scandir(folder) as found:
        return sorted(entry.name for entry in found if entry.is_dir() and not entry.name.startswith("."))


def _files(root: Path, folder: str) -> list[str]:
    with os.scandir(root / folder) as found:
        entries = [entry for entry in found if not entry.name.startswith(".")]
    if folders := sorted(entry.name for entry in entries if entry.is_dir()):
        raise OptionError(
            "folder", str(root), f"has a folder {folder}/{folders[0]} where images belong", "move it away"
        )
    names = sorted(entry.name for entry in entries)
    for name in names:
        if not name.isprintable():
            raise OptionError("folder", str(root), f"has a file {folder}/{name!a} of no printable name", "rename it")
    return [f"{folder}/{name}" for name in names]
