"""
Finds out whether the sources of prepared data have the same contents as before, if their place or times changed.

Snakemake compares the parameters of a step with those of its last execution. A parameter that names a place or contains
times would rerun the step and everything downstream. Such a parameter is an `AliasedParameter` of the earlier one if
the contents are those that were prepared.
"""

import ast
import hashlib
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from csv import DictReader
from pathlib import Path

import numpy as np

from howmanygpus.files import sha256_of_file, write_json_atomic
from howmanygpus.prepare.listing import Task, describe_dataset
from howmanygpus.prepare.sources import load_source

READERS = 8
"""Files that are read at the same time."""


class SourceContents:
    """Knowledge about the sources of one data set, in a file beside the prepared data.

    Each parameter has an entry: `how` is everything that it depends on except times, and `same_as`, if the contents
    were compared, is an earlier parameter.
    """

    def __init__(self, path: Path):
        self._path, self._used = path, set[str]()
        self._known: dict[str, dict] = {}
        with suppress(OSError, ValueError):
            self._known = json.loads(path.read_text())

    def note(self, parameter: str, how: str) -> None:
        self._known.setdefault(parameter, {"how": how})
        self._used.add(parameter)

    def is_same_contents(self, earlier: str, now: str, how: str, compare: Callable[[], bool]) -> bool:
        """Return whether two parameters mean the same contents. `compare` reads them if the answer is not known."""
        if earlier not in self._known:
            return False
        self._used.add(earlier)
        if self._known[earlier]["how"] != how:
            return False
        if self._known[now].get("same_as") != earlier and compare():
            self._known[now]["same_as"] = earlier
        return self._known[now].get("same_as") == earlier

    def save(self) -> None:
        """Keep what this call used, if the data set has been prepared."""
        if self._path.parent.is_dir():
            with suppress(OSError):
                write_json_atomic(self._path, {name: self._known[name] for name in sorted(self._used)})


def find_earlier(recorded: list[str] | None, others: list[str]) -> str | None:
    """Return the one parameter of the last execution that is not among the present `others`; None if there are more.

    recorded: the parameters of the last execution as Snakemake keeps them, or None if there was none.
    """
    remaining = list(recorded or [])
    for other in others:
        if repr(other) in remaining:
            remaining.remove(repr(other))
    return ast.literal_eval(remaining[0]) if len(remaining) == 1 else None


def describe_shard(task: Task, shard: int) -> str:
    """Return a hash of everything besides file contents that the pixels of a shard depend on."""
    how = [task.image_shape, *task.preparation.pixel_options]
    paths = [entry.path for entry in task.shards[shard]]
    return hashlib.sha256(json.dumps([how, paths]).encode()).hexdigest()[:16]


def has_contents_of_shard(task: Task, shard: int, records: Path) -> bool:
    """Return whether a shard's files have the contents from which it was prepared. Reads all of them."""
    # Every call of Snakemake imports this module, and few compare anything.
    from howmanygpus.prepare.shards import prepare_file, read_records

    if not records.exists():
        return False
    known = {record.path: record for record in read_records(records)}

    def is_same(path: str) -> bool:
        if path not in known:
            return False
        if known[path].reason:
            return prepare_file(task, path)[1] == known[path]
        with suppress(OSError):
            return sha256_of_file(task.listing.folder / path) == known[path].source_sha256
        return False

    with ThreadPoolExecutor(READERS) as readers:
        return all(readers.map(is_same, [entry.path for entry in task.shards[shard]]))


def describe_files(source: str, options: dict) -> str:
    """Return a hash of size and time of each file that a data set of arrays is read from; empty if it names none."""
    module = load_source(source)
    if not hasattr(module, "list_files"):
        return ""
    found = [(path.name, path.stat()) for path in module.list_files(**options)]
    states = [[name, status.st_size, status.st_mtime_ns] for name, status in found]
    return hashlib.sha256(json.dumps(states).encode()).hexdigest()[:16]


def has_contents_of_arrays(source: str, options: dict, folder: Path) -> bool:
    """Return whether a data set without image files has the images and labels of a prepared folder."""
    from howmanygpus.measure.input.prepared import SPLITS
    from howmanygpus.measure.input.writing import format_label, hash_pixels

    with suppress(OSError, ValueError), open(folder / "manifest.tsv", newline="") as file:
        known = [(row["split"], row["label"], row["sha256"]) for row in DictReader(file, delimiter="\t")]
        arrays = load_source(source).load(**options)
        return known == [
            (split, format_label(label), hash_pixels(image))
            for split in SPLITS
            for image, label in zip(getattr(arrays, f"{split}_images"), getattr(arrays, f"{split}_labels"), strict=True)
        ]
    return False


def has_shape_of_arrays(source: str, options: dict, folder: Path) -> bool:
    """Return whether a data set has the shape, the counts and the kind of labels of a prepared folder."""
    with suppress(OSError, ValueError):
        known = json.loads((folder / "dataset.json").read_text())
        multi_label = np.load(folder / "train_labels.npy", mmap_mode="r").ndim == 2
        now = describe_dataset(source, options)
        shape = [list(now.image_shape), now.num_classes, now.num_train, now.num_test]
        is_alike = shape == [known[key] for key in ("image_shape", "num_classes", "num_train", "num_test")]
        return is_alike and multi_label == now.multi_label
    return False
