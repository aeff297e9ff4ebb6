"""Prepare one shard: decode, resize and store its images one after the other, and record what became of each file."""

import csv
import hashlib
import os
import time
from collections.abc import Iterator
from dataclasses import astuple, dataclass, fields
from pathlib import Path

import numpy as np

from howmanygpus.prepare.images import BadImageError
from howmanygpus.prepare.images.decoding import decode
from howmanygpus.prepare.images.headers import read_file
from howmanygpus.prepare.images.resizing import resize
from howmanygpus.prepare.listing import Task
from howmanygpus.prepare.statistics import sum_levels

PROGRESS_EVERY_S = 10.0


@dataclass(frozen=True)
class Record:
    """What became of one file: hashes and sums over its prepared pixels, or a reason and nothing else.

    sums and squares are of levels and of their squares, by channel, in text with commas between.
    """

    path: str
    source_sha256: str = ""
    pixels_sha256: str = ""
    sums: str = ""
    squares: str = ""
    reason: str = ""


def prepare_shard(task: Task, shard: int, images: Path, records: Path) -> None:
    """Write the images as they are prepared, without a header, and one record for each file of the shard.

    Memory does not grow with their number. Both files appear whole or not at all, the records last.
    """
    entries = task.shards[shard]
    partial_images, partial_records = (path.with_name(f".{path.name}.partial") for path in (images, records))
    progress = Progress(f"shard {shard + 1} of {task.num_shards}", len(entries))
    try:
        with open(partial_images, "wb") as pixels, open(partial_records, "w", newline="") as table:
            rows = csv.writer(table, delimiter="\t", lineterminator="\n")
            rows.writerow([field.name for field in fields(Record)])
            for entry in entries:
                image, record, num_bytes = prepare_file(task, entry.path)
                if image is not None:
                    pixels.write(image)
                rows.writerow(astuple(record))
                progress.count(num_bytes, record.reason and f"{record.path}: {record.reason}")
        os.replace(partial_images, images)
        os.replace(partial_records, records)
    finally:
        partial_images.unlink(missing_ok=True)
        partial_records.unlink(missing_ok=True)


def prepare_file(task: Task, path: str) -> tuple[np.ndarray | None, Record, int]:
    """The prepared image, None where there is none; what became of the file; and the file's bytes."""
    data = b""
    try:
        data = read_file(task.listing.folder / path)
        image = prepare_image(task, data)
    except BadImageError as error:
        return None, Record(path, reason=str(error)), len(data)
    sums, squares = (",".join(map(str, by_channel)) for by_channel in sum_levels(image))
    record = Record(path, hashlib.sha256(data).hexdigest(), hashlib.sha256(image).hexdigest(), sums, squares)
    return image, record, len(data)


def prepare_image(task: Task, data: bytes) -> np.ndarray:
    """uint8 in the task's shape, contiguous; raises BadImageError."""
    preparation = task.preparation
    image = decode(data, preparation.channels, preparation.decoder)
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
    """Says now and then how far a long piece of work is, and at once what is bad."""

    def __init__(self, name: str, total: int):
        self._name, self._total, self._done, self._bytes = name, total, 0, 0
        self._started = self._said = time.monotonic()

    def count(self, num_bytes: int, problem: str = "") -> None:
        """One more file, of num_bytes; `problem` is printed, if there is one."""
        self._done, self._bytes = self._done + 1, self._bytes + num_bytes
        if problem:
            print(problem, flush=True)
        now = time.monotonic()
        if now - self._said >= PROGRESS_EVERY_S or self._done == self._total:
            elapsed_s, self._said = max(now - self._started, 1e-9), now
            rates = f"{self._done / elapsed_s:.0f} images/s, {self._bytes / elapsed_s / 1e6:.1f} MB/s"
            print(f"{self._name}: {self._done} of {self._total} files, {rates}", flush=True)
