"""
CIFAR-10 (Krizhevsky 2009): 60,000 colour images, 32x32, of ten classes; 50,000 train, 10,000 test, in the published
order.

Options: folder, with the published files as extracted, `data_batch_1` to `data_batch_5` and `test_batch` (Python
version) or the same with `.bin` (binary version), in it or in its `cifar-10-batches-py` or `cifar-10-batches-bin`; or
with the archive of one of them, which is then extracted into results/raw/. Without a folder the Python version is
fetched (163 MiB).
"""

from functools import cache
from pathlib import Path

import numpy as np

from howmanygpus.prepare.acquire.acquisition import Acquisition, Download
from howmanygpus.prepare.pickles import read_pickle
from howmanygpus.prepare.sources import Arrays, Description, OptionError, check_folder

SHAPE = (32, 32, 3)
NUM_CLASSES = 10
ROW_BYTES = 1 + 32 * 32 * 3
"""Of the binary version: a label and the pixels, channel by channel."""
BATCHES = {"train": [f"data_batch_{number}" for number in range(1, 6)], "test": ["test_batch"]}
ARCHIVES = ("cifar-10-python.tar.gz", "cifar-10-binary.tar.gz")
MOST_BYTES = 2**28
FOLDERS = (".", "cifar-10-batches-py", "cifar-10-batches-bin")
BY_HAND = (
    "fetch cifar-10-python.tar.gz from https://www.cs.toronto.edu/~kriz/cifar.html, extract it, and name its folder by "
    "the option `folder`"
)
ARCHIVE = Download(
    url="https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
    checksum="sha256:6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce",
    num_bytes=170_498_071,
)


def acquire(folder: str | None = None) -> Acquisition | None:
    """The archive at the published address, or the one in the folder that holds nothing else of it."""
    options = {"by_hand": BY_HAND, "most_bytes": MOST_BYTES}
    if folder is None:
        return Acquisition(downloads=(ARCHIVE,), **options)
    archives = [check_folder("folder", folder, BY_HAND) / name for name in ARCHIVES]
    archives = [path for path in archives if path.is_file()]
    if not archives or _has_batches(folder):
        return None
    return Acquisition(archives=(archives[0],), **options)


def describe(folder: str | None = None) -> Description:
    """The published counts, or those of the files where a folder with extracted ones is named."""
    if acquire(folder) is not None:
        return Description(SHAPE, NUM_CLASSES, 50_000, 10_000)
    counts = {split: sum(_count_rows(path) for path in _find_batches(folder, split)) for split in BATCHES}
    return Description(SHAPE, NUM_CLASSES, counts["train"], counts["test"])


def load(folder: str) -> Arrays:
    """Raises ValueError for a file that is not as published."""
    parts = {}
    for split in BATCHES:
        batches = [_read_batch(path) for path in _find_batches(folder, split)]
        rows = np.concatenate([pixels for pixels, _ in batches])
        parts[f"{split}_images"] = np.ascontiguousarray(rows.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
        parts[f"{split}_labels"] = np.concatenate([labels for _, labels in batches])
    return Arrays(**parts)


def _has_batches(folder: str) -> bool:
    try:
        return all(_find_batches(folder, split) for split in BATCHES)
    except OptionError:
        return False


def _find_batches(folder: str, split: str) -> list[Path]:
    root = check_folder("folder", folder, BY_HAND)
    for candidate in FOLDERS:
        for suffix in ("", ".bin"):
            paths = [root / candidate / f"{name}{suffix}" for name in BATCHES[split]]
            if all(path.is_file() for path in paths):
                return paths
    raise OptionError("folder", folder, f"lacks {', '.join(BATCHES[split])}, with or without .bin", BY_HAND)


def _count_rows(path: Path) -> int:
    if path.suffix == ".bin":
        return path.stat().st_size // ROW_BYTES
    return _count_pickled(path, path.stat().st_size, path.stat().st_mtime_ns)


@cache
def _count_pickled(path: Path, num_bytes: int, modified_ns: int) -> int:
    """Size and time are what tells files apart that are changed while this runs."""
    try:
        return len(_read_batch(path)[1])
    except ValueError as error:
        raise OptionError("folder", str(path.parent), f"cannot be read: {error}", BY_HAND) from None


def _read_batch(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Pixels as uint8 (count, 3072), channel by channel, and labels as int32 (count,)."""
    if path.suffix == ".bin":
        content = np.frombuffer(path.read_bytes(), np.uint8)
        if not len(content) or len(content) % ROW_BYTES:
            raise ValueError(f"{path} has {len(content)} bytes, no multiple of {ROW_BYTES}; fetch it again")
        rows = content.reshape(-1, ROW_BYTES)
        pixels, labels = rows[:, 1:], rows[:, 0].astype(np.int32)
    else:
        found = read_pickle(path)
        pixels, numbers = found.get("data"), found.get("labels")
        if not isinstance(pixels, np.ndarray) or not isinstance(numbers, list):
            raise ValueError(f"{path} holds no data and labels; fetch it again")
        labels = np.array(numbers, np.int32)
    if pixels.shape != (len(labels), ROW_BYTES - 1) or not set(labels.tolist()) <= set(range(NUM_CLASSES)):
        raise ValueError(f"{path} does not hold a label below {NUM_CLASSES} for each image; fetch it again")
    return pixels, labels
