"""Merge the shards of a data set into arrays in the order of its listing, with a manifest and remarks."""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from pathlib import Path

import numpy as np

from howmanygpus.measure.input.prepared import MISSING, SPLITS
from howmanygpus.measure.input.writing import write_prepared
from howmanygpus.prepare.checks.excluded import check_exclusions
from howmanygpus.prepare.checks.listed import describe_listing
from howmanygpus.prepare.checks.pixels import Image, describe_duplicates
from howmanygpus.prepare.checks.remarks import write_remarks
from howmanygpus.prepare.listing import Task
from howmanygpus.prepare.shards import Record, mean_and_std, read_records
from howmanygpus.prepare.sources import Entry

EXCLUSIONS, CLASSES = "exclusions.tsv", "classes.tsv"


@dataclass(frozen=True)
class Prepared:
    """A file that was read: its entry, its record, the number of its shard, and its position in the shard."""

    entry: Entry
    record: Record
    shard: int
    place: int

    @property
    def labels(self) -> tuple[int, ...]:
        return (self.entry.label,) if isinstance(self.entry.label, int) else self.entry.label


def merge_folder(task: Task, shards: Path, folder: Path) -> None:
    """Merge the shards in the folder `shards`, and remove those of an earlier number of shards from it."""
    names = [f"shard{shard}of{task.num_shards}" for shard in range(task.num_shards)]
    images, records = ([shards / f"{name}.{suffix}" for name in names] for suffix in ("pixels", "tsv"))
    merge_shards(task, images, records, folder)
    for path in sorted(set(shards.iterdir()) - {*images, *records}):
        print(f"removing {path}, which does not belong to the {task.num_shards} shards")
        path.unlink()


def merge_shards(task: Task, images: list[Path], records: list[Path], folder: Path) -> None:
    """Write a prepared folder, with exclusions.tsv, classes.tsv and any remarks in it, from the files of all shards.

    images, records: the two files of each shard, in the order of the shards. Raises ValueError for bad files unless
    they are to be skipped, and if most of the test images are training images.
    """
    prepared, excluded = _match(task, records)
    remarks = _check(task, prepared, excluded)
    chosen = {split: [item for item in prepared if item.entry.split == split] for split in SPLITS}
    has_groups = any(item.entry.group for item in prepared)
    columns = ("path", "source_sha256", *(["group"] if has_groups else []))
    with write_prepared(folder, columns) as writer:
        for split, items in chosen.items():
            shape, num_bytes = (len(items), *task.image_shape), math.prod(task.image_shape)
            places = sorted(range(len(items)), key=lambda place: (items[place].shard, items[place].place))
            in_shards = [items[place] for place in places]
            writer.write_images(split, shape, _read_pixels(in_shards, images, num_bytes), places)
            writer.write_labels(split, _make_labels(task, items), (_line(item, has_groups) for item in items))
        rows = [(entry.path, entry.split, _format_label(entry.label), record.reason) for entry, record in excluded]
        writer.write_table(EXCLUSIONS, ("path", "split", "label", "reason"), rows)
        writer.write_table(CLASSES, ("label", "class", *(f"num_{split}" for split in SPLITS)), _count(task, chosen))
        write_remarks(writer.folder, remarks)
        mean, std = _channel_statistics(task, chosen["train"])
        writer.describe(
            {
                "image_shape": task.image_shape,
                "num_classes": len(task.listing.classes),
                "num_train": len(chosen["train"]),
                "num_test": len(chosen["test"]),
                "channel_mean": mean,
                "channel_std": std,
                **({"split": task.listing.split} if task.listing.split else {}),
            }
        )
    counts = " and ".join(f"{len(items)} {split}" for split, items in chosen.items())
    print(f"{counts} images, {len(excluded)} files left out", flush=True)


def _match(task: Task, records: list[Path]) -> tuple[list[Prepared], list[tuple[Entry, Record]]]:
    """Return the files that were read and those that were not, in the order of the listing.

    Raises ValueError if the shards do not have the files of the listing.
    """
    found: dict[str, tuple[Record, int, int]] = {}
    for shard, path in enumerate(records):
        place = 0
        for record in read_records(path):
            found[record.path] = (record, shard, place)
            place += not record.reason
    entries = task.listing.entries
    if found.keys() != {entry.path for entry in entries}:
        raise ValueError(f"{task.listing.folder} was changed while it was prepared; run the workflow again")
    prepared, excluded = [], []
    for entry in entries:
        record, shard, place = found[entry.path]
        if record.reason:
            excluded.append((entry, record))
        else:
            prepared.append(Prepared(entry, record, shard, place))
    return prepared, excluded


def _count(task: Task, chosen: dict[str, list[Prepared]]) -> list[tuple]:
    """Return number and name of each class, and the number of its images in each split."""
    counts = {split: Counter(label for item in items for label in item.labels) for split, items in chosen.items()}
    return [
        (label, name, *(counts[split][label] for split in SPLITS)) for label, name in enumerate(task.listing.classes)
    ]


def _line(item: Prepared, has_groups: bool) -> tuple[str, ...]:
    """Return the values of an image in the manifest's columns after its label."""
    line = (item.record.pixels_sha256, item.record.path, item.record.source_sha256)
    return (*line, item.entry.group) if has_groups else line


def _check(task: Task, prepared: list[Prepared], excluded: list[tuple[Entry, Record]]) -> list[str]:
    """Return the remarks on the files. Raises ValueError if they cannot be trained on."""
    images = (
        Image(item.record.path, item.entry.split, item.entry.label, item.record.pixels_sha256) for item in prepared
    )
    bad_files = [(entry, record.reason) for entry, record in excluded]
    return [*describe_listing(task.listing), *check_exclusions(task, bad_files), *describe_duplicates(images)]


def _read_pixels(items: list[Prepared], images: list[Path], num_bytes: int) -> Iterator[bytes]:
    """Yield the pixels of each item, in the order of their shards; raises ValueError for a shard that ends early.

    One shard is open at a time, because systems limit the number of open files.
    """
    for shard, own in groupby(items, key=attrgetter("shard")):
        with open(images[shard], "rb") as file:
            for item in own:
                file.seek(item.place * num_bytes)
                pixels = file.read(num_bytes)
                if len(pixels) != num_bytes:
                    raise ValueError(f"{images[shard]} ends early; delete it and run the workflow again")
                yield pixels


def _make_labels(task: Task, items: list[Prepared]) -> np.ndarray:
    """Return int32 (count,) or, for multi-label data, uint8 (count, num_classes); see measure.input.prepared."""
    if not task.listing.multi_label:
        return np.array([item.entry.label for item in items], np.int32)
    labels = np.zeros((len(items), len(task.listing.classes)), np.uint8)
    for row, item in zip(labels, items, strict=True):
        for number in item.labels:
            row[number if number >= 0 else ~number] = 1 if number >= 0 else MISSING
    return labels


def _channel_statistics(task: Task, train: list[Prepared]) -> tuple[list[float], list[float]]:
    """Return mean and standard deviation of each channel over the training images."""
    sums = ((_split_numbers(item.record.sums), _split_numbers(item.record.squares)) for item in train)
    return mean_and_std(sums, math.prod(task.image_shape[:2]))


def _split_numbers(text: str) -> list[int]:
    return list(map(int, text.split(",")))


def _format_label(label: int | tuple[int, ...]) -> str:
    """A label as format_label() writes it."""
    if isinstance(label, int):
        return str(label)
    return ",".join([*(str(k) for k in label if k >= 0), *sorted(f"?{~k}" for k in label if k < 0)])
