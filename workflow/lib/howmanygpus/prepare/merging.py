"""Merge the shards of a data set into arrays in the order of its listing, with a manifest and the list of bad files."""

import csv
import math
import os
import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from howmanygpus.files import sha256_of_file, write_json_atomic
from howmanygpus.prepare.listing import Task
from howmanygpus.prepare.shards import Record, read_records
from howmanygpus.prepare.sources import Entry
from howmanygpus.prepare.statistics import mean_and_std

EXCLUSIONS = "exclusions.tsv"
NAMED_FILES = 20
"""Bad files that an error names; all are in the logs of the shards."""


@dataclass(frozen=True)
class Prepared:
    """A file that was read: its entry and record, and where its pixels are: shard and place in it."""

    entry: Entry
    record: Record
    shard: int
    place: int


def merge_shards(task: Task, images: list[Path], records: list[Path], folder: Path) -> None:
    """Write arrays, manifest.tsv, exclusions.tsv and dataset.json in `folder`, dataset.json last.

    images, records: the files of all shards, in order. Raises ValueError for bad files unless they are to be skipped.
    """
    prepared, excluded = _match(task, records)
    if excluded and task.preparation.on_bad_file == "fail":
        raise ValueError(_explain(excluded))
    partial = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        counts = {split: _write_split(task, split, prepared, images, partial) for split in ("train", "test")}
        _write_manifest(partial / "manifest.tsv", prepared)
        mean, std = _channel_statistics(task, prepared)
        _write_table(
            partial / EXCLUSIONS,
            ("path", "split", "label", "reason"),
            ((entry.path, entry.split, _text(entry.label), record.reason) for entry, record in excluded),
        )
        hashed = sorted(path.name for path in partial.iterdir() if path.name != EXCLUSIONS)
        description = {
            "image_shape": task.image_shape,
            "num_classes": len(task.listing.classes),
            "num_train": counts["train"],
            "num_test": counts["test"],
            "channel_mean": mean,
            "channel_std": std,
            "sha256": {name: sha256_of_file(partial / name) for name in hashed},
        }
        folder.mkdir(parents=True, exist_ok=True)
        for name in (*hashed, EXCLUSIONS):
            os.replace(partial / name, folder / name)
        write_json_atomic(folder / "dataset.json", description)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    print(f"{counts['train']} train and {counts['test']} test images, {len(excluded)} files left out", flush=True)


def _match(task: Task, records: list[Path]) -> tuple[list[Prepared], list[tuple[Entry, Record]]]:
    """What was read, and what was not, in the order of the listing; raises ValueError where the shards do not fit."""
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


def _explain(excluded: list[tuple[Entry, Record]]) -> str:
    """All reasons with their numbers, and the first files by name."""
    reasons = Counter(record.reason.partition(":")[0] for _, record in excluded)
    lines = [f"  {record.path}: {record.reason}" for _, record in excluded[:NAMED_FILES]]
    if len(excluded) > NAMED_FILES:
        lines.append(f"  and {len(excluded) - NAMED_FILES} more, in the logs of the shards")
    numbers = ", ".join(f"{count} {reason}" for reason, count in reasons.most_common())
    return "\n".join(
        [f"{len(excluded)} files cannot be prepared ({numbers}):", *lines, "Mend them, or set `on_bad_file: skip`."]
    )


def _write_split(task: Task, split: str, prepared: list[Prepared], images: list[Path], folder: Path) -> int:
    """Write {split}_images.npy and {split}_labels.npy, and return the number of images."""
    chosen = [item for item in prepared if item.entry.split == split]
    if not chosen:
        raise ValueError(f"no {split} image of {task.listing.folder} can be prepared")
    num_bytes = math.prod(task.image_shape)
    shards = [os.open(path, os.O_RDONLY) for path in images]
    try:
        with open(folder / f"{split}_images.npy", "wb") as file:
            header = {"descr": "|u1", "fortran_order": False, "shape": (len(chosen), *task.image_shape)}
            np.lib.format.write_array_header_1_0(file, header)
            for item in chosen:
                pixels = os.pread(shards[item.shard], num_bytes, item.place * num_bytes)
                if len(pixels) != num_bytes:
                    raise ValueError(f"{images[item.shard]} ends early; delete it and run the workflow again")
                file.write(pixels)
    finally:
        for shard in shards:
            os.close(shard)
    np.save(folder / f"{split}_labels.npy", _labels(task, chosen))
    return len(chosen)


def _labels(task: Task, chosen: list[Prepared]) -> np.ndarray:
    """int32 (count,); of a multi-label data set uint8 (count, num_classes), one where an image has the label."""
    if not task.listing.multi_label:
        return np.array([item.entry.label for item in chosen], np.int32)
    labels = np.zeros((len(chosen), len(task.listing.classes)), np.uint8)
    for row, item in zip(labels, chosen, strict=True):
        row[list(item.entry.label)] = 1
    return labels


def _channel_statistics(task: Task, prepared: list[Prepared]) -> tuple[list[float], list[float]]:
    """Mean and standard deviation of each channel over the training images."""
    train = (item.record for item in prepared if item.entry.split == "train")
    sums = ([list(map(int, text.split(","))) for text in (record.sums, record.squares)] for record in train)
    return mean_and_std(sums, math.prod(task.image_shape[:2]))


def _write_manifest(path: Path, prepared: list[Prepared]) -> None:
    """One line per image, like that of prepare_arrays, with the file it was made of and that file's SHA-256."""
    places = {"train": 0, "test": 0}

    def rows():
        for split in places:
            for item in (item for item in prepared if item.entry.split == split):
                label, record = _text(item.entry.label), item.record
                yield places[split], split, label, record.pixels_sha256, record.path, record.source_sha256
                places[split] += 1

    _write_table(path, ("index", "split", "label", "sha256", "path", "source_sha256"), rows())


def _write_table(path: Path, columns: tuple[str, ...], rows) -> None:
    with open(path, "w", newline="") as file:
        table = csv.writer(file, delimiter="\t", lineterminator="\n")
        table.writerow(columns)
        table.writerows(rows)


def _text(label: int | tuple[int, ...]) -> str:
    return str(label) if isinstance(label, int) else ",".join(map(str, label))
