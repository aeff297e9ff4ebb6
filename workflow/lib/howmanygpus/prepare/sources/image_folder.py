"""
Any folder of images in a tree `split/class/file`. Classes are the folders of the training split, in the order of their
names; every file in them that is not hidden is an image.

Options:
folder       folder that contains the two splits
train, test  the folders of the two splits in it; the defaults are `train` and `test`
downloads    instead of `folder`: archives to fetch and extract, each {url, sha256 or md5, num_bytes}
listing      with `downloads`: a text file with the paths of the files in the archives, one per line, as `tar --list`
             prints them; the study is planned from it before anything is fetched
and the options of prepare/options.py.
"""

import os
from pathlib import Path

from howmanygpus.prepare.acquire.acquisition import Acquisition, acquire_downloads
from howmanygpus.prepare.options import Preparation
from howmanygpus.prepare.sources import Entry, Listing, OptionError, check_folder

PREPARATION = Preparation()
Tree = dict[str, list[str]]
"""Paths of the files of each class of one split."""


def acquire(folder: str | None = None, downloads: list | None = None, **options) -> Acquisition | None:
    return acquire_downloads(folder, downloads)


def list_images(
    folder: str | None = None,
    train: str = "train",
    test: str = "test",
    downloads: list | None = None,
    listing: str | None = None,
) -> Listing:
    root, splits = Path(folder or ""), {"train": train, "test": test}
    if acquire(folder, downloads):
        paths = _read_listing(listing)
        trees = {option: _select_split(paths, option, name, listing) for option, name in splits.items()}
    else:
        if listing is not None:
            raise OptionError("listing", listing, "is given together with a folder", "leave it out")
        check_folder("folder", folder, "give a folder with the images")
        trees = {option: _scan_split(root, option, name) for option, name in splits.items()}
    classes = tuple(sorted(trees["train"]))
    if unknown := sorted(set(trees["test"]) - set(classes)):
        raise OptionError("test", test, f"has a class {unknown[0]} that {train} does not have", "correct the folders")
    numbers = {name: number for number, name in enumerate(classes)}
    entries = [
        Entry(path, split, numbers[name])
        for split, tree in trees.items()
        for name, files in sorted(tree.items())
        for path in sorted(files)
    ]
    return Listing(root, classes, entries)


def _read_listing(path: str | None) -> list[str]:
    if path is None or not Path(path).is_file():
        remedy = "tar --list --file ARCHIVE > LISTING writes it"
        raise OptionError("listing", path, "is not a file here, and downloads need one", remedy)
    paths = [line.removeprefix("./") for line in Path(path).read_text().splitlines()]
    return [path for path in paths if path and not path.endswith("/")]


def _select_split(paths: list[str], option: str, folder: str, listing: str | None) -> Tree:
    """The files of one split in a listing."""
    start = f"{folder}/"
    tree: Tree = {}
    for path in paths:
        if path.startswith(start) and not any(part.startswith(".") for part in Path(path).parts):
            name, _, file = path.removeprefix(start).partition("/")
            if not file or "/" in file or ".." in Path(path).parts:
                raise OptionError("listing", listing, f"has {path}, not {folder}/class/file", "correct it")
            tree.setdefault(name, []).append(path)
    if not tree:
        raise OptionError(option, folder, f"is not a folder in {listing}", "give the path of the split in the archives")
    return tree


def _scan_split(root: Path, option: str, folder: str) -> Tree:
    """The files of one split in a folder."""
    if not (root / folder).is_dir():
        raise OptionError(option, folder, f"is not a folder in {root}", f"there are {_names_of_folders(root)}")
    return {name: _files(root, f"{folder}/{name}") for name in _names_of_folders(root / folder)}


def _names_of_folders(folder: Path) -> list[str]:
    with os.scandir(folder) as found:
        return sorted(entry.name for entry in found if entry.is_dir() and not entry.name.startswith("."))


def _files(root: Path, folder: str) -> list[str]:
    with os.scandir(root / folder) as found:
        entries = [entry for entry in found if not entry.name.startswith(".")]
    if folders := sorted(entry.name for entry in entries if entry.is_dir()):
        raise OptionError("folder", str(root), f"has a folder {folder}/{folders[0]} among the images", "move it away")
    names = sorted(entry.name for entry in entries)
    for name in names:
        if not name.isprintable():
            raise OptionError("folder", str(root), f"has the unprintable name {folder}/{name!a}", "rename it")
    return [f"{folder}/{name}" for name in names]
