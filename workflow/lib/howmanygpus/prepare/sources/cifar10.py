"""
CIFAR-10 (Krizhevsky 2009): 60,000 colour images, 32x32, of ten classes; 50,000 train, 10,000 test, in the published
order. The binary version is read; the Python version holds pickles, which can run code, and is refused.

Options: folder, which contains the published files `data_batch_1.bin` to `data_batch_5.bin` and `test_batch.bin`, or
the folder `cifar-10-batches-bin` with them, or the archive `cifar-10-binary.tar.gz`, which is then extracted into
results/raw/. Without a folder the archive is fetched (162 MiB).
"""

from pathlib import Path

import numpy as np

from howmanygpus.prepare.acquire.acquisition import Acquisition, Download
from howmanygpus.prepare.sources import Arrays, Description, OptionError, check_folder

SHAPE = (32, 32, 3)
NUM_CLASSES = 10
ROW_BYTES = 1 + 32 * 32 * 3
"""Bytes of one image: its label and its pixels, channel by channel."""
BATCHES = {"train": [f"data_batch_{number}.bin" for number in range(1, 6)], "test": ["test_batch.bin"]}
MAX_BYTES = 2**28
FOLDERS = (".", "cifar-10-batches-bin")
PYTHON_VERSION = ("data_batch_1", "cifar-10-batches-py", "cifar-10-python.tar.gz")
"""Names by which the Python version is recognised."""
BY_HAND = (
    "fetch the binary version, cifar-10-binary.tar.gz, from https://www.cs.toronto.edu/~kriz/cifar.html into a folder, "
    "and give that folder as the option `folder`"
)
ARCHIVE = Download(
    url="https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
    checksum="sha256:c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
    num_bytes=170_052_171,
)
"""SHA-256 and size are those of TensorFlow Datasets. The page of the data set has the MD5 of the same file,
c32a1d4ab5d03f1284b67883e8d87530."""


def acquire(folder: str | None = None) -> Acquisition | None:
    """Return the published archive or the folder's; None if the folder has extracted files. Raises OptionError."""
    if folder is None:
        return Acquisition(downloads=(ARCHIVE,), by_hand=BY_HAND, most_bytes=MAX_BYTES)
    archive = check_folder("folder", folder, BY_HAND) / ARCHIVE.name
    if _list_batches(folder) or not archive.is_file():
        return None
    return Acquisition(archives=(archive,), by_hand=BY_HAND, most_bytes=MAX_BYTES)


def describe(folder: str | None = None) -> Description:
    """Return the published counts or, if a folder with extracted files is given, the counts of these files."""
    if folder is None or acquire(folder) is not None:
        return Description(SHAPE, NUM_CLASSES, 50_000, 10_000)
    batches = _require_batches(folder)
    counts = {split: sum(path.stat().st_size // ROW_BYTES for path in batches[split]) for split in BATCHES}
    return Description(SHAPE, NUM_CLASSES, counts["train"], counts["test"])


def list_files(folder: str) -> list[Path]:
    """The files that the images are read from. Raises OptionError for missing files."""
    return [path for paths in _require_batches(folder).values() for path in paths]


def load(folder: str) -> Arrays:
    """Return the arrays. Raises OptionError for missing files, and ValueError for a file that is not as published."""
    parts = {}
    for split, paths in _require_batches(folder).items():
        batches = [_read_batch(path) for path in paths]
        rows = np.concatenate([pixels for pixels, _ in batches])
        parts[f"{split}_images"] = np.ascontiguousarray(rows.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
        parts[f"{split}_labels"] = np.concatenate([labels for _, labels in batches])
    return Arrays(**parts)


def _list_batches(folder: str) -> dict[str, list[Path]] | None:
    """Return the paths of the files of each split; None if any is missing."""
    for candidate in FOLDERS:
        found = {split: [Path(folder, candidate, name) for name in names] for split, names in BATCHES.items()}
        if all(path.is_file() for paths in found.values() for path in paths):
            return found
    return None


def _require_batches(folder: str) -> dict[str, list[Path]]:
    root = check_folder("folder", folder, BY_HAND)
    if found := _list_batches(folder):
        return found
    for name in PYTHON_VERSION:
        if (root / name).exists():
            problem = f"has the Python version of CIFAR-10 ({name}), whose pickles can run code and are not read"
            remedy = f"{BY_HAND}, or leave `folder` out and the workflow fetches it"
            raise OptionError("folder", folder, problem, remedy)
    names = [name for names in BATCHES.values() for name in names]
    missing = [[name for name in names if not (root / candidate / name).is_file()] for candidate in FOLDERS]
    raise OptionError("folder", folder, f"lacks {', '.join(sorted(missing, key=len)[0])}", BY_HAND)


def _read_batch(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return pixels as uint8 (count, 3072), channel by channel, and labels as int32 (count,)."""
    content = np.frombuffer(path.read_bytes(), np.uint8)
    if not len(content) or len(content) % ROW_BYTES:
        raise ValueError(f"{path} has {len(content)} bytes, not a multiple of {ROW_BYTES}; fetch it again")
    rows = content.reshape(-1, ROW_BYTES)
    labels = rows[:, 0].astype(np.int32)
    if labels.max() >= NUM_CLASSES:
        raise ValueError(f"{path} has the label {labels.max()}, not below {NUM_CLASSES}; fetch it again")
    return rows[:, 1:], labels
