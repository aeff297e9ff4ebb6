"""
Split images that have no published split: the option `split` of data sets of image files.

split: {test: 0.2, by: file, seed: 1}
test   fraction of the images of each class that become test images
by     `file`; or a regular expression whose group names the unit that stays in one split, such as the patient in a
       file's name: `^(\\d+)_`. In a data set with a table it can also be the name of a column.
seed   another seed makes another split; the default is 1

Groups are taken in the order of a hash of seed and name. The split therefore depends on no library, and an added image
moves few others.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Hashable
from dataclasses import asdict, dataclass, fields, replace
from pathlib import PurePosixPath
from typing import Any

from howmanygpus.prepare.sources import Entry, Listing, OptionError, shorten_list

BY_FILE = "file"
UNLABELLED = "unlabelled"
REMEDY = "write {test: 0.2}, or with all keys {test: 0.2, by: file, seed: 1}"


@dataclass(frozen=True)
class Split:
    test: float
    by: str = BY_FILE
    seed: int = 1


def read_split(given: Any) -> Split:
    """Read the option `split`. Raises OptionError."""
    keys = [field.name for field in fields(Split)]
    if not isinstance(given, dict) or "test" not in given or not set(given) <= set(keys):
        raise OptionError("split", given, f"does not have the key test, and at most {', '.join(keys)}", REMEDY)
    split = Split(**given)
    if isinstance(split.test, bool) or not isinstance(split.test, int | float) or not 0 < split.test < 1:
        raise OptionError("split", given, "has no fraction of the images as test", "give a number between 0 and 1")
    if isinstance(split.seed, bool) or not isinstance(split.seed, int):
        raise OptionError("split", given, "has a seed that is no whole number", "give one, such as 1")
    if not isinstance(split.by, str):
        raise OptionError("split", given, "has a `by` that is no text", "write `file` or a pattern in quotes")
    return split


def extract_groups(names: list[str], split: Split) -> list[str]:
    """Return the group of each name by the pattern of a split; empty texts if it is by file. Raises OptionError."""
    if split.by == BY_FILE:
        return [""] * len(names)
    pattern = _compile(split.by)
    matches = [pattern.search(name) for name in names]
    if unmatched := [name for name, match in zip(names, matches, strict=True) if not (match and match[1])]:
        problem = f"finds no group in {len(unmatched)} of {len(names)} files: {shorten_list(unmatched)}"
        raise OptionError("split", split.by, problem, "correct the pattern")
    return [match[1] for match in matches if match]


def _compile(text: str) -> re.Pattern:
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise OptionError("split", text, f"is no regular expression ({error})", "correct `by`") from None
    if pattern.groups != 1:
        problem = f"has {pattern.groups} groups in parentheses, not one"
        raise OptionError("split", text, problem, "write `by: file`, or a pattern such as '^([^_]+)_'")
    return pattern


def split_listing(listing: Listing, given: dict | None) -> Listing:
    """Return the same images, split by the option `split` if it is given. Raises OptionError."""
    if given is None:
        return listing
    split = read_split(given)
    entries = _split_entries(listing.entries, split, listing.classes)
    remarks = listing.remarks + _describe_groups(entries, split)
    return replace(listing, entries=entries, split=asdict(split), remarks=remarks)


def _split_entries(entries: list[Entry], split: Split, classes: tuple[str, ...]) -> list[Entry]:
    """Return the same entries with their splits. Raises OptionError if a class cannot be in both."""
    chosen = _choose_test(entries, split)
    divided = [
        Entry(entry.path, "test" if _name(entry) in chosen else "train", entry.label, entry.group) for entry in entries
    ]
    for split_name in ("train", "test"):
        found = {label for entry in divided if entry.split == split_name for label in _labels(entry)}
        for number in sorted(_single_labels(entries) - found):
            groups = {_name(entry) for entry in entries if entry.label == number}
            problem = f"puts no image of the class {classes[number]} to {split_name}: it is in {len(groups)} " + (
                "groups, which other classes share" if len(groups) > 1 else "group" if entries[0].group else "file"
            )
            raise OptionError("split", asdict(split), problem, "add images of it or leave the class out")
    return divided


def _describe_groups(entries: list[Entry], split: Split) -> tuple[str, ...]:
    """Return a remark if no group has a second file, or if file names may contain groups that are not declared."""
    if split.by == BY_FILE:
        return _remark_on_names(entries, split.test)
    if entries and split.by != BY_FILE and len({entry.group for entry in entries}) == len(entries):
        return (f"split: {split.by!r} finds a group of its own for each of {len(entries)} files, as `by: file` does",)
    return ()


def _remark_on_names(entries: list[Entry], test: float) -> tuple[str, ...]:
    """Return a remark if files share the beginnings of their names, in many more groups than there are classes."""
    labels = {label for entry in entries for label in _labels(entry)}
    for separator in "_-":
        names = [PurePosixPath(entry.path).name.partition(separator) for entry in entries]
        beginnings = Counter(beginning for beginning, found, _ in names if found)
        shared = {beginning: count for beginning, count in beginnings.items() if count > 1}
        if sum(shared.values()) > len(entries) / 2 and len(shared) > 2 * len(labels):
            longest = max(shared, key=lambda beginning: shared[beginning])
            return (
                f"split: {sum(shared.values())} of {len(entries)} files share the beginnings of their names, such as "
                f"{longest}{separator} ({shared[longest]} files). If a beginning names a patient, images of one "
                f"patient are in both splits; keep them together by `split: {{test: {test:g}, by: "
                f"'^([^{separator}]+){separator}'}}`",
            )
    return ()


def _choose_test(entries: list[Entry], split: Split) -> set[str]:
    """Return the names of the groups that become test images."""
    groups: dict[str, dict[Hashable, int]] = {}
    totals: Counter = Counter()
    for entry in entries:
        counts = groups.setdefault(_name(entry), {})
        for label in _labels(entry):
            counts[label] = counts.get(label, 0) + 1
            totals[label] += 1
    targets = {label: max(1.0, split.test * count) for label, count in totals.items()}
    order = sorted(groups, key=lambda name: hashlib.sha256(f"{split.seed}\t{name}".encode()).digest())
    taken: Counter = Counter()
    chosen = set()

    def has_enough_left(name: str) -> bool:
        return all(taken[label] + count < totals[label] for label, count in groups[name].items())

    def take(name: str) -> None:
        chosen.add(name)
        taken.update(groups[name])

    for name in order:
        if _change(groups[name], taken, targets) < 0 and has_enough_left(name):
            take(name)
    for label in sorted(totals, key=str):
        if not taken[label]:
            possible = [name for name in order if label in groups[name] and has_enough_left(name)]
            if possible:
                take(min(possible, key=lambda name: sum(groups[name].values())))
    return chosen


def _change(group: dict[Hashable, int], taken: Counter, targets: dict[Hashable, float]) -> float:
    """Return how the sum of squared relative distances to the targets changes if a group joins the test images."""
    return sum(
        ((taken[label] + count - targets[label]) ** 2 - (taken[label] - targets[label]) ** 2) / targets[label] ** 2
        for label, count in group.items()
    )


def _name(entry: Entry) -> str:
    return entry.group or entry.path


def _labels(entry: Entry) -> tuple[Hashable, ...]:
    return (entry.label,) if isinstance(entry.label, int) else entry.label or (UNLABELLED,)


def _single_labels(entries: list[Entry]) -> set[int]:
    return {entry.label for entry in entries if isinstance(entry.label, int)}
