"""Write a prepared folder, whose content `prepared.py` explains and reads."""

import csv
import hashlib
import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import numpy as np

from howmanygpus.files import atomic_folder, remove_leftovers, sha256_of_file, write_json_atomic
from howmanygpus.measure.input.description import DESCRIPTION, MANIFEST
from howmanygpus.measure.input.prepared import MISSING, SPLITS, PreparedData

COLUMNS = ("index", "split", "label", "sha256")
"""First columns of every manifest. The SHA-256 is that of an image's pixels or, if it is a file, of the file."""


class PreparedWriter:
    """Writes the parts of one prepared folder; write_prepared() provides it."""

    def __init__(self, folder: Path, columns: tuple[str, ...]):
        """folder: an empty folder. columns: further columns of the manifest."""
        self.folder = folder
        self._hashed = {MANIFEST}
        self.write_table(MANIFEST, (*COLUMNS, *columns), ())

    def write_images(
        self,
        split: str,
        shape: tuple[int, ...],
        images: Iterable[memoryview | bytes],
        places: Iterable[int] | None = None,
    ) -> None:
        """Write the images of a split as an array, one by one, so that memory does not grow with their number.

        shape: (count, height, width, channels). images: the pixels of each image, uint8, contiguous. places: the index
        of each image in the array, if they do not come in its order. Raises ValueError if they do not fill the array.
        """
        name, num_bytes = f"{split}_images.npy", 0
        with open(self.folder / name, "wb") as file:
            np.lib.format.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": shape})
            start, size = file.tell(), math.prod(shape[1:])
            for place, image in zip(count() if places is None else places, images, strict=False):
                file.seek(start + place * size)
                num_bytes += file.write(image)
        if num_bytes != math.prod(shape):
            raise ValueError(f"{split} images have {num_bytes} bytes, not the {math.prod(shape)} of the shape {shape}")
        self._hashed.add(name)

    def write_labels(self, split: str, labels: np.ndarray, lines: Iterable[tuple]) -> None:
        """Write the labels of a split, and a line of the manifest for each of its images.

        labels: int32 (count,), or uint8 (count, num_classes) as in PreparedData.
        lines: the SHA-256 of each image and its values in the further columns. Raises ValueError if the counts differ.
        """
        name = f"{split}_labels.npy"
        np.save(self.folder / name, labels)
        self._hashed.add(name)
        rows = zip(labels, lines, strict=True)
        self._append(MANIFEST, ((index, split, format_label(label), *line) for index, (label, line) in enumerate(rows)))

    def write_table(self, name: str, columns: tuple[str, ...], rows: Iterable[tuple]) -> None:
        """Write a table of tab-separated values into the folder. Its hash is not part of the description."""
        self._append(name, [columns, *rows])

    def describe(self, description: dict) -> None:
        """Write dataset.json, which has the hashes of arrays, labels and manifest beside `description`."""
        sha256 = {name: sha256_of_file(self.folder / name) for name in sorted(self._hashed)}
        write_json_atomic(self.folder / DESCRIPTION, description | {"sha256": sha256})

    def _append(self, name: str, rows: Iterable[tuple]) -> None:
        with open(self.folder / name, "a", newline="") as file:
            csv.writer(file, delimiter="\t", lineterminator="\n").writerows(rows)


@contextmanager
def write_prepared(folder: Path, columns: tuple[str, ...] = ()) -> Iterator[PreparedWriter]:
    """Yield a writer of `folder`, which appears, or replaces the older one, as a whole when the block ends.

    If the block raises, `folder` stays as it was. columns: further columns of the manifest.
    """
    remove_leftovers(folder)
    with atomic_folder(folder) as partial:
        yield PreparedWriter(partial, columns)


def write_data(folder: Path, data: PreparedData) -> None:
    """Write a prepared folder with arrays that are in memory."""
    with write_prepared(folder) as writer:
        for split in SPLITS:
            images, labels = getattr(data, f"{split}_images"), getattr(data, f"{split}_labels")
            images = np.ascontiguousarray(images)
            writer.write_images(split, images.shape, (image.data for image in images))
            writer.write_labels(split, labels, ((hash_pixels(image),) for image in images))
        writer.describe(
            {
                "image_shape": data.image_shape,
                "num_classes": data.num_classes,
                "num_train": len(data.train_labels),
                "num_test": len(data.test_labels),
                "channel_mean": data.channel_mean,
                "channel_std": data.channel_std,
            }
        )


def hash_pixels(image: np.ndarray) -> str:
    """Return the SHA-256 of an image's pixels; uint8, contiguous."""
    return hashlib.sha256(image.data).hexdigest()


def format_label(label: np.ndarray) -> str:
    """Return a label as the manifest has it: the class, or the classes of a multi-label image with commas between them.

    A question mark precedes a class whose label is unknown.
    """
    if label.ndim == 0:
        return str(label)
    unknown = [f"?{number}" for number in np.flatnonzero(label == MISSING)]
    return ",".join([*map(str, np.flatnonzero(label == 1)), *unknown])
