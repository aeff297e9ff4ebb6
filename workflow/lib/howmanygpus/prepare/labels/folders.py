"""Find the images of classes in the folders of a tree or of a listing of archives; describe wrong folders."""

import os
from collections import Counter
from itertools import islice
from pathlib import Path

from howmanygpus.prepare.labels.names import SkippedEntries, is_writable, normalize, show
from howmanygpus.prepare.sources import OptionError, shorten_list

Tree = dict[str, list[str]]
"""Paths of the files of each class."""
TRAIN_NAMES = ("train", "training")
TEST_NAMES = ("test", "testing", "val", "valid", "validation", "dev", "eval")
MAX_COUNTED = 100_000
CLASSES_REMEDY = "name the classes by folders, or by a table with the source image_csv"


def is_split_name(name: str) -> bool:
    return name.lower() in TRAIN_NAMES + TEST_NAMES


def scan_classes(root: Path, folder: str, left_out: SkippedEntries) -> Tree:
    """Return the files of each class, at any depth below the folders of `folder`, which is relative to `root`.

    Raises OptionError for what cannot be read, and for names that cannot be those of classes or images.
    """
    tree: Tree = {}
    try:
        for name in list_folders(root / folder, left_out):
            _check_name(root, folder, name)
            if normalize(name) in tree:
                problem = f"has two folders {name}, whose names are the same text in two encodings (NFC and NFD)"
                raise OptionError("folder", str(root / folder), problem, "move the files of one into the other")
            tree[normalize(name)] = _scan_files(root, join(folder, name), left_out)
    except OSError as error:
        problem = f"has {error.filename}, which cannot be read: {error.strerror}"
        raise OptionError("folder", str(root), problem, "make it readable, or move it elsewhere") from None
    return tree


def select_classes(paths: list[str], folder: str, listing: str | None, left_out: SkippedEntries) -> Tree:
    """Return the files of each class from the paths of a listing; empty if it does not have the folder."""
    start = f"{folder}/" if folder else ""
    tree: Tree = {}
    for path in paths:
        parts = Path(path).parts
        if path.startswith(start) and not any(part != ".." and left_out.takes(part) for part in parts):
            name, _, file = path.removeprefix(start).partition("/")
            if not file or ".." in parts:
                raise OptionError("listing", listing, f"has {path}, not {join(folder, 'class')}/file", "correct it")
            tree.setdefault(normalize(name), []).append(path)
    return tree


def join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def list_folders(folder: Path, left_out: SkippedEntries | None = None) -> list[str]:
    """Return the names of the folders that may be classes. left_out: counts the other files and folders."""
    left_out = left_out or SkippedEntries()
    with os.scandir(folder) as found:
        return sorted(entry.name for entry in found if not left_out.takes(entry.name) and _is_folder(entry))


def _is_folder(entry: os.DirEntry) -> bool:
    """Whether an entry is a folder or a link to one; a link to itself is none."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def refuse_split(root: Path, option: str, folder: str) -> OptionError:
    """Return the error for a missing folder of a split, which says what exists instead."""
    problem = f"is not a folder in {root}, which has {describe_folder(root)}"
    folders = list_folders(root)
    names = TRAIN_NAMES if option == "train" else TEST_NAMES
    if not folders:
        return OptionError(option, folder, problem, CLASSES_REMEDY)
    if similar := [name for name in folders if name.lower() in names]:
        return OptionError(option, folder, problem, f"give `{option}: {similar[0]}`")
    if option == "test" and (trained := [name for name in folders if name.lower() in TRAIN_NAMES]):
        remedy = f"split the training images by `train: {trained[0]}` and `split: {{test: 0.2}}`, or give the folder"
        return OptionError(option, folder, problem, remedy)
    remedy = f"split these classes by `split: {{test: 0.2}}`, or give the name of the folder as `{option}`"
    return OptionError(option, folder, problem, remedy)


def describe_folder(root: Path) -> str:
    """Return a folder's content, such as `2 folders (normal with 400 files, pneumonia with 400 files) and 1 file`."""
    counts = {name: _count_files(root / name) for name in list_folders(root)}
    folders = shorten_list([f"{show(name)} with {number}" for name, number in counts.items()], most=5)
    with os.scandir(root) as found:
        num_files = sum(entry.is_file() for entry in found)
    told = [f"{_count(len(counts), 'folder')} ({folders})"] if counts else []
    return " and ".join([*told, *([_count(num_files, "file")] if num_files or not told else [])])


def describe_unused(root: Path, used: list[str]) -> tuple[str, ...]:
    """Return a remark on unused folders that look like splits."""
    folders = [name for name in list_folders(root) if is_split_name(name) and name not in used]
    return (f"{_count(len(folders), 'folder')} of {root} left out: {', '.join(folders)}",) if folders else ()


def describe_loose_files(root: Path, folder: str) -> tuple[str, ...]:
    """Return a remark on images beside the folders of the classes."""
    with os.scandir(root / folder) as found:
        names = sorted(entry.name for entry in found if entry.is_file() and not SkippedEntries().takes(entry.name))
    kinds = Counter(Path(name).suffix.lower() for name in names)
    images = sum(kinds[suffix] for suffix in (".png", ".jpg", ".jpeg"))
    return (f"{_count(images, 'image')} left out in {root / folder}, beside the folders of the classes",) * bool(images)


def _count_files(folder: Path) -> str:
    """Return the number of files at any depth; large numbers are not counted to their end."""
    files = (name for _, _, names in os.walk(folder) for name in names)
    number = sum(1 for _ in islice(files, MAX_COUNTED))
    return f"{MAX_COUNTED:,} files or more" if number == MAX_COUNTED else _count(number, "file")


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'s' * (number != 1)}"


def _check_name(root: Path, folder: str, name: str) -> None:
    """Raise OptionError for a name that a table cannot hold: one with a tab, or in an encoding other than UTF-8."""
    if not is_writable(name):
        problem = f"has the unprintable name {join(folder, show(name))}"
        raise OptionError("folder", str(root), problem, "rename it, in UTF-8 and without control characters")


def _scan_files(root: Path, folder: str, left_out: SkippedEntries) -> list[str]:
    """Return the paths of all files at any depth below a folder, except those that are left out."""
    found = []
    with os.scandir(root / folder) as entries:
        for entry in entries:
            path = f"{folder}/{entry.name}"
            if left_out.takes(entry.name):
                continue
            _check_name(root, folder, entry.name)
            is_folder = _is_folder(entry)
            if (
                is_folder
                and entry.is_symlink()
                and Path(root / folder).resolve().is_relative_to((root / path).resolve())
            ):
                remedy = "remove the link"
                raise OptionError("folder", str(root), f"has the link {path} to a folder that contains it", remedy)
            found.extend(_scan_files(root, path, left_out) if is_folder else [path])
    return found
