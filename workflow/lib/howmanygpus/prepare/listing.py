"""
List the files of a data set, their shape, and the shards that jobs prepare.

The shard of a file depends on its path alone, so that a file that is added, changed or removed affects one shard.
Labels and splits affect no shard, because they are added to the pixels when the shards are merged.
"""

import hashlib
import json
import zlib
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path

from howmanygpus.prepare.acquire.acquisition import Acquisition
from howmanygpus.prepare.checks.kinds import CONVERT, check_kinds, check_levels, describe_endings
from howmanygpus.prepare.checks.listed import check_listing, describe_listing
from howmanygpus.prepare.images import BadImageError
from howmanygpus.prepare.images.headers import read_file, read_header
from howmanygpus.prepare.options import Preparation, check_texts, split_options
from howmanygpus.prepare.sources import Description, Entry, Listing, OptionError, load_source, shorten_list


@dataclass(frozen=True)
class Task:
    """A data set of image files, and how it is prepared."""

    listing: Listing
    preparation: Preparation
    is_acquired: bool = False
    """Whether the workflow fetches or extracts the files: they may not exist yet, and are never edited."""

    @cached_property
    def image_shape(self) -> tuple[int, int, int]:
        """(height, width, channels)"""
        return (*(self.preparation.size or self._read_first_size()), self.preparation.channels)

    def _read_first_size(self) -> tuple[int, int]:
        """(height, width) of the first image that can be read."""
        if self.is_acquired:
            raise OptionError("size", None, "is not known before the images are there", "give [height, width]")
        reasons: dict[str, str] = {}
        for entry in self.listing.entries:
            try:
                return _read_size(read_file(self.listing.folder / entry.path), self.preparation)
            except BadImageError as error:
                reasons.setdefault(error.reason, f"{entry.path} ({error})")
        found = f"{describe_endings(self.listing)}, such as {shorten_list(reasons.values())}"
        problem = f"finds no image that can be read in {self.listing.folder}, which has {found}"
        remedy = CONVERT if "unknown" in reasons else "correct the folder or give a size"
        raise OptionError("size", None, problem, remedy)

    @cached_property
    def num_shards(self) -> int:
        """Number of shards: a power of two, so that a few images more or fewer rarely change it."""
        wanted = -(-len(self.listing.entries) // self.preparation.shard_images)
        return 1 << (wanted - 1).bit_length()

    @cached_property
    def shards(self) -> list[list[Entry]]:
        """The entries of each shard, in the order of the listing."""
        shards: list[list[Entry]] = [[] for _ in range(self.num_shards)]
        for entry in self.listing.entries:
            shards[zlib.crc32(entry.path.encode()) % self.num_shards].append(entry)
        return shards

    def fingerprint_shard(self, shard: int) -> str:
        """Return a hash of what a shard's pixels depend on: path, size and time of files, and their preparation."""
        how = [self.image_shape, *self.preparation.pixel_options]
        digest = hashlib.sha256(json.dumps(how).encode())
        for entry in self.shards[shard]:
            if self.is_acquired:
                digest.update(f"{entry.path}\n".encode())
                continue
            try:
                status = (self.listing.folder / entry.path).stat()
                state = f"{status.st_size} {status.st_mtime_ns}"
            except OSError:
                state = "missing"
            digest.update(f"{entry.path}\t{state}\n".encode())
        return digest.hexdigest()[:16]

    def fingerprint_listing(self) -> str:
        """Return a hash of paths, labels and splits in order, the classes, and the options on_bad_file and split."""
        digest = hashlib.sha256(json.dumps([self.listing.classes, self.preparation.on_bad_file]).encode())
        if self.listing.split:
            digest.update(json.dumps(self.listing.split).encode())
        for entry in self.listing.entries:
            group = f"\t{entry.group}" if entry.group else ""
            digest.update(f"{entry.path}\t{entry.split}\t{entry.label}{group}\n".encode())
        return digest.hexdigest()[:16]

    def check_fingerprint(self, planned: str, shard: int | None = None) -> None:
        """Raise ValueError if a shard, or the listing, has changed since it was planned."""
        found = self.fingerprint_listing() if shard is None else self.fingerprint_shard(shard)
        if found != planned:
            raise ValueError(f"{self.listing.folder} was changed since the call began; run the workflow again")

    @cached_property
    def description(self) -> Description:
        """Shape and counts of the listing; if bad files are skipped, fewer images may remain. Raises OptionError."""
        check_listing(self.listing)
        if not self.is_acquired:
            check_kinds(self.listing)
            check_levels(self.listing, self.preparation)
        splits = [entry.split for entry in self.listing.entries]
        counts = splits.count("train"), splits.count("test")
        num_classes, remarks = len(self.listing.classes), describe_listing(self.listing)
        return Description(self.image_shape, num_classes, *counts, self.listing.multi_label, remarks)


def _read_size(data: bytes, preparation: Preparation) -> tuple[int, int]:
    """(height, width) of an image that is upright. Raises BadImageError."""
    header = read_header(data)
    if header.plain:
        return header.height, header.width
    # An orientation can exchange height and width. Few calls need OpenCV, which this module imports.
    from howmanygpus.prepare.images.decoding import decode

    height, width, _ = decode(data, preparation.channels, levels=preparation.levels).shape
    return height, width


def is_listed(source: str) -> bool:
    """Whether a data source consists of image files."""
    return hasattr(load_source(source), "list_images")


def resolve_acquisition(source: str, options: dict) -> Acquisition | None:
    """Return what must be fetched or extracted for a data set; None if its files are in place."""
    module = load_source(source)
    if not hasattr(module, "acquire"):
        return None
    own = split_options(options, module.PREPARATION)[1] if is_listed(source) else options
    return module.acquire(**own)


def read_task(source: str, options: dict, acquired: str = "") -> Task:
    """Return the task of image files. Raises OptionError for a wrong value, TypeError for an unknown option.

    acquired: the folder of files that the workflow fetches or extracts for the data set.
    """
    check_texts(load_source(source).list_images, options)
    return read_task_once(source, json.dumps(options, sort_keys=True), acquired)


@cache
def read_task_once(source: str, options: str, acquired: str) -> Task:
    module = load_source(source)
    preparation, own = split_options(json.loads(options), module.PREPARATION)
    listing = module.list_images(**own)
    is_acquired = resolve_acquisition(source, json.loads(options)) is not None
    if is_acquired:
        listing = replace(listing, folder=Path(acquired))
    return Task(listing, preparation, is_acquired)


def describe_dataset(source: str, options: dict) -> Description:
    """Return shape and counts of a data set of any kind; nothing is decoded."""
    if is_listed(source):
        return read_task(source, options).description
    module = load_source(source)
    check_texts(module.describe, options)
    return module.describe(**options)
