"""
Prepare one shard: decode, resize and store its images one by one, and record the outcome for each file.

Mean and standard deviation over many images are computed from exact sums, so that neither order nor memory matters.
"""

import csv
import hashlib
import math
import time
from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass, fields
from fractions import Fraction
from pathlib import Path

import numpy as np

from howmanygpus.files import atomic_path, remove_leftovers
from howmanygpus.prepare.images import BadImageError
from howmanygpus.prepare.images.decoding import decode
from howmanygpus.prepare.images.headers import read_file
from howmanygpus.prepare.images.resizing import resize
from howmanygpus.prepare.listing import Task

PROGRESS_EVERY_S = 10.0


@dataclass(frozen=True)
class Record:
    """Outcome for one file: hashes and sums of its prepared pixels, or only the reason why it is left out.

    sums, squares: sums of the levels and of their squares, one number per channel, separated by commas.
    """

    path: str
    source_sha256: str = ""
    pixels_sha256: str = ""
    sums: str = ""
    squares: str = ""
    reason: str = ""


def prepare_shard(task: Task, shard: int, images: Path, records: Path) -> None:
    """Write the pixels of all images without a header to `images`, and one record for each file to `records`.

    Memory does not grow with the number of images. Both files appear whole or not at all, `records` last.
    """
    entries = task.shards[shard]
    for path in (images, records):
        remove_leftovers(path)
    progress = Progress(f"shard {shard + 1} of {task.num_shards}", len(entries))
    with (
        atomic_path(records) as partial_records,
        atomic_path(images) as partial_images,
        open(partial_images, "wb") as pixels,
        open(partial_records, "w", newline="") as table,
    ):
        rows = csv.writer(table, delimiter="\t", lineterminator="\n")
        rows.writerow([field.name for field in fields(Record)])
        for entry in entries:
            image, record, num_bytes = prepare_file(task, entry.path)
            if image is not None:
                pixels.write(image.data)
            rows.writerow(astuple(record))
            progress.count(num_bytes, record.reason and f"{record.path}: {record.reason}")


def prepare_file(task: Task, path: str) -> tuple[np.ndarray | None, Record, int]:
    """Return the prepared image, or None for a bad file; the record of the file; and its size in bytes."""
    data = b""
    try:
        data = read_file(task.listing.folder / path)
        image = prepare_image(task, data)
    except BadImageError as error:
        return None, Record(path, reason=str(error)), len(data)
    sums, squares = (",".join(map(str, by_channel)) for by_channel in sum_levels(image))
    record = Record(path, hashlib.sha256(data).hexdigest(), hashlib.sha256(image.data).hexdigest(), sums, squares)
    return image, record, len(data)


def prepare_image(task: Task, data: bytes) -> np.ndarray:
    """Decode and resize one image to the task's shape, uint8, contiguous; raises BadImageError."""
    preparation = task.preparation
    image = decode(data, preparation.channels, preparation.decoder, preparation.levels)
    height, width, _ = task.image_shape
    if preparation.size is None and image.shape[:2] != (height, width):
        raise BadImageError(
            "other_size", f"{image.shape[0]}x{image.shape[1]}, not {height}x{width}; set `size` to resize all images"
        )
    return np.ascontiguousarray(resize(image, (height, width), preparation.filter))


def read_records(path: Path) -> Iterator[Record]:
    with open(path, newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            yield Record(**row)


class Progress:
    """Prints the progress of a long task from time to time, and every problem at once."""

    def __init__(self, name: str, total: int):
        self._name, self._total, self._done, self._bytes = name, total, 0, 0
        self._started = self._said = time.monotonic()

    def count(self, num_bytes: int, problem: str = "") -> None:
        """Count one more file of `num_bytes`, and print its problem if there is one."""
        self._done, self._bytes = self._done + 1, self._bytes + num_bytes
        if problem:
            print(problem, flush=True)
        now = time.monotonic()
        if now - self._said >= PROGRESS_EVERY_S or self._done == self._total:
            elapsed_s, self._said = max(now - self._started, 1e-9), now
            rates = f"{self._done / elapsed_s:.0f} images/s, {self._bytes / elapsed_s / 1e6:.1f} MB/s"
            print(f"{self._name}: {self._done} of {self._total} files, {rates}", flush=True)


BLOCK_PIXELS = 2**20
MIN_STD = 1e-3
"""Smallest standard deviation. Images are divided by it, so it must not be zero."""


def sum_levels(image: np.ndarray) -> tuple[list[int], list[int]]:
    """Return the sums of an image's levels and of their squares, by channel. image: uint8, channels last."""
    pixels = image.reshape(-1, image.shape[-1])
    levels, squares = np.zeros((2, image.shape[-1]), np.int64)
    for start in range(0, len(pixels), BLOCK_PIXELS):
        block = pixels[start : start + BLOCK_PIXELS].astype(np.uint32)
        levels += block.sum(axis=0, dtype=np.int64)
        squares += (block * block).sum(axis=0, dtype=np.int64)
    return levels.tolist(), squares.tolist()


def mean_and_std(sums: Iterable[tuple[list[int], list[int]]], pixels_per_image: int) -> tuple[list[float], list[float]]:
    """Return mean and standard deviation of each channel over all images, in levels of 0 to 255.

    sums: result of sum_levels() for each image. No standard deviation is below MIN_STD.
    """
    count, totals = 0, np.zeros((2, 1), np.int64)
    for levels_and_squares in sums:
        totals = totals + np.array(levels_and_squares)
        count += pixels_per_image
    levels, squares = totals.tolist()
    means = [Fraction(total, count) for total in levels]
    variances = [Fraction(total, count) - mean**2 for total, mean in zip(squares, means, strict=True)]
    return [float(mean) for mean in means], [max(math.sqrt(variance), MIN_STD) for variance in variances]
