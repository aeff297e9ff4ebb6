"""Prepare a data set that has no image files: its arrays, or random ones of the same shape and number."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np

from howmanygpus.measure.input.prepared import SPLITS
from howmanygpus.measure.input.writing import hash_pixels, write_prepared
from howmanygpus.prepare.checks.pixels import Image, describe_duplicates
from howmanygpus.prepare.checks.remarks import write_remarks
from howmanygpus.prepare.listing import describe_dataset
from howmanygpus.prepare.shards import mean_and_std, sum_levels
from howmanygpus.prepare.sources import Description, load_source, synthetic

Parts = dict[str, tuple[Iterable[np.ndarray], np.ndarray]]
"""For each split its images, in blocks of uint8 (count, height, width, channels), and its labels."""
Check = Callable[[Iterable[Image]], list[str]]
"""Returns remarks on images, or raises ValueError for those that cannot be trained on."""


def prepare_arrays(source: str, options: dict, acquired: str, folder: Path) -> None:
    """Write a data set as a prepared folder, with any remarks on images that have the same pixels.

    acquired: folder of what was fetched or extracted for it, if anything. Raises ValueError if most of the test images
    are training images.
    """
    description = describe_dataset(source, options)
    parts = read_parts(source, options, acquired, description)
    write_parts(parts, description, folder, check=describe_duplicates)


def prepare_random(source: str, options: dict, folder: Path) -> None:
    """Write random images and labels of a data set's shape and number as a prepared folder."""
    description = describe_dataset(source, options)
    write_parts(draw_parts(description), description, folder)


def read_parts(source: str, options: dict, acquired: str, description: Description) -> Parts:
    """Load a data set. Raises ValueError if it does not match its description."""
    arrays = load_source(source).load(**options | ({"folder": acquired} if acquired else {}))
    parts: Parts = {}
    for split in SPLITS:
        images, labels = getattr(arrays, f"{split}_images"), getattr(arrays, f"{split}_labels")
        check_part(source, split, images, labels, description)
        parts[split] = ([images], labels)
    return parts


def check_part(source: str, split: str, images: np.ndarray, labels: np.ndarray, description: Description) -> None:
    """Raise ValueError if a data source does not deliver what it describes."""
    count = description.count(split)
    expected = (count, *description.image_shape)
    if images.shape != expected or images.dtype != np.uint8:
        raise ValueError(f"{source}: {split} images are {images.dtype} {images.shape}, not uint8 {expected}")
    if description.multi_label:
        if labels.shape != (count, description.num_classes) or labels.dtype != np.uint8 or labels.max() > 1:
            raise ValueError(
                f"{source}: {split} labels are not {count} rows of {description.num_classes} zeros or ones"
            )
        return
    if labels.shape != (count,) or labels.min() < 0 or labels.max() >= description.num_classes:
        raise ValueError(f"{source}: {split} labels are not {count} numbers below {description.num_classes}")


def _list_images(parts: Parts, hashes: dict[str, list[str]]) -> Iterator[Image]:
    for split, (_, labels) in parts.items():
        for index, (label, sha256) in enumerate(zip(labels, hashes[split], strict=True)):
            classes = int(label) if label.ndim == 0 else tuple(np.flatnonzero(label).tolist())
            yield Image(f"{split} image {index}", split, classes, sha256)


def draw_parts(description: Description) -> Parts:
    draw_labels = synthetic.draw_several_labels if description.multi_label else synthetic.draw_labels
    return {split: (synthetic.draw_images(description, split), draw_labels(description, split)) for split in SPLITS}


def write_parts(parts: Parts, description: Description, folder: Path, check: Check | None = None) -> None:
    """Write images, labels, manifest, the remarks of a check, and the channel statistics of the training images."""
    hashes: dict[str, list[str]] = {split: [] for split in SPLITS}
    sums = []

    def pass_on(split: str, blocks: Iterable[np.ndarray]) -> Iterator[memoryview]:
        for block in blocks:
            for image in np.ascontiguousarray(block):
                hashes[split].append(hash_pixels(image))
                if split == "train":
                    sums.append(sum_levels(image))
                yield image.data

    with write_prepared(folder) as writer:
        for split, (blocks, labels) in parts.items():
            shape = (description.count(split), *description.image_shape)
            writer.write_images(split, shape, pass_on(split, blocks))
            writer.write_labels(split, labels, ((sha256,) for sha256 in hashes[split]))
        if check:
            write_remarks(writer.folder, check(_list_images(parts, hashes)))
        height, width, _ = description.image_shape
        mean, std = mean_and_std(sums, height * width)
        writer.describe(
            {
                "image_shape": description.image_shape,
                "num_classes": description.num_classes,
                "num_train": description.num_train,
                "num_test": description.num_test,
                "channel_mean": mean,
                "channel_std": std,
            }
        )
