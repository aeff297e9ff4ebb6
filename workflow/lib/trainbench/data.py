"""
Prepared data as a run sees it: memory-mapped uint8 arrays and the small description beside them.

A prepared folder holds {train,test}_{images,labels}.npy, manifest.tsv (per image: SHA-256, label, split) and
dataset.json (shape, counts, normalisation, hashes of all these files).
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ARRAYS = ("train_images", "train_labels", "test_images", "test_labels")


@dataclass(frozen=True)
class PreparedData:
    """Images are uint8 (count, height, width, channels), labels int32 (count,)."""

    train_images: np.ndarray
    train_labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray
    num_classes: int
    channel_mean: tuple[float, ...]
    channel_std: tuple[float, ...]

    @property
    def image_shape(self) -> tuple[int, int, int]:
        return self.train_images.shape[1:]


def sha256_of_file(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_description(data_dir: Path) -> dict:
    return json.loads((Path(data_dir) / "dataset.json").read_text())


def open_data(data_dir: Path) -> PreparedData:
    description = read_description(data_dir)
    return PreparedData(
        **{name: np.load(Path(data_dir) / f"{name}.npy", mmap_mode="r") for name in ARRAYS},
        num_classes=description["num_classes"],
        channel_mean=tuple(description["channel_mean"]),
        channel_std=tuple(description["channel_std"]),
    )


def verify_hashes(folder: Path, sha256: dict[str, str]) -> None:
    """Compare files with their recorded hashes; raises ValueError naming the file and the remedy."""
    for name, expected in sha256.items():
        path = Path(folder) / name
        found = sha256_of_file(path) if path.exists() else None
        if found != expected:
            problem = f"SHA-256 is {found}, not the recorded {expected}" if found else "the file is missing"
            raise ValueError(f"{path}: {problem}; delete {folder} and run the workflow again to make it anew")
