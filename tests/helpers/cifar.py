"""CIFAR-10 in its published layouts: small batches made here, and the real ones of the shared sample data."""

import pickle
from pathlib import Path

import numpy as np

from helpers.sample_data import needs
from howmanygpus.prepare.sources import cifar10
from pictures import SHARED_DATA

NAMES = [name for names in cifar10.BATCHES.values() for name in names]
PYTHON_VERSION = SHARED_DATA / "cifar10" / "cifar-10-batches-py"
"""Real images in the Python version, which the workflow does not read: the first 164 of each batch."""


def write_batch(path: Path, rows: np.ndarray, labels: list[int]) -> None:
    """Write a file of the binary version. rows: uint8 (count, 3072), channel by channel."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(np.column_stack([np.array(labels, np.uint8), rows]).tobytes())


def write_small(folder: Path, count: int = 3) -> np.ndarray:
    """Write six batches with `count` images each; returns their pixels (6 * count, 32, 32, 3)."""
    random = np.random.default_rng(0)
    batches = [random.integers(0, 256, (count, 3072), dtype=np.uint8) for _ in NAMES]
    for name, rows in zip(NAMES, batches, strict=True):
        write_batch(folder / name, rows, list(range(count)))
    return np.concatenate(batches).reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)


def write_real(folder: Path) -> None:
    """Write the real images of the sample data in the binary version; skips the test if they are absent."""
    for name in NAMES:
        with open(needs(PYTHON_VERSION / name.removesuffix(".bin")), "rb") as file:
            batch = pickle.load(file, encoding="bytes")
        write_batch(folder / name, batch[b"data"], batch[b"labels"])
