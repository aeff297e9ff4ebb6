"""Check a listing before anything is prepared: refuse one that cannot be trained on, and remark on oddities."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from howmanygpus.prepare.labels.names import normalize_look
from howmanygpus.prepare.labels.tables import find_line
from howmanygpus.prepare.sources import Listing, OptionError, shorten_list

SPLITS = ("train", "test")
NO_VALUE = ("nan", "nat", "null", "na", "n/a", "#n/a", "<na>")
"""What programs write in a table for a missing value, in lower case."""


def check_listing(listing: Listing) -> None:
    """Raise OptionError if a split or a class has no images to train on, or an image is in both splits."""
    for split in SPLITS:
        if not any(entry.split == split for entry in listing.entries):
            raise _refuse(listing, f"has no {split} images", "correct it")
    if shared := _paths(listing, "train") & _paths(listing, "test"):
        names = shorten_list(sorted(shared))
        raise _refuse(listing, f"has {len(shared)} files both as training and as test images: {names}", "correct it")
    if not listing.classes:
        raise _refuse(listing, "has no label of any image", "correct `label_column` or `nothing`, or write labels")
    if same := _group_alike(listing.classes, normalize_look):
        names = shorten_list(" and ".join(map(ascii, names)) for names in same)
        raise _refuse(listing, f"has classes whose names look the same: {names}", "give them one name")
    if listing.multi_label:
        return
    if len(listing.classes) < 2:
        remedy = "training needs at least two" + "; correct it or `label_column`" * bool(listing.table)
        raise _refuse(listing, f"has only the class {shorten_list(listing.classes)}", remedy)
    if missing := _missing_classes(listing, "train"):
        problem = f"has no training image of the class {shorten_list(missing)}"
        raise _refuse(listing, problem, "add images of it, or remove the class")


def describe_listing(listing: Listing) -> tuple[str, ...]:
    """Return remarks on a listing that check_listing accepts."""
    missing = [] if listing.multi_label else _missing_classes(listing, "test")
    problem = f"{len(missing)} of {len(listing.classes)} classes have no test image: {shorten_list(missing)}"
    remarks = (*listing.remarks, *_describe_alike(listing.classes), *_describe_numbers(listing))
    return (*remarks, *_describe_no_value(listing), *([problem] if missing else []))


def _describe_alike(classes: tuple[str, ...]) -> tuple[str, ...]:
    """Return a remark on names that differ only in case, except for single letters, which may be classes."""
    same = _group_alike(classes, str.casefold)
    alike = [" and ".join(names) for names in same if len(names[0]) > 1]
    if not alike:
        return ()
    told = f"classes whose names differ only in case count as different: {shorten_list(alike)}"
    return (f"{told}; if they are one, give them one name",)


def _describe_numbers(listing: Listing) -> tuple[str, ...]:
    """Return a remark on names that are one number in two forms, such as 1 and 1.0."""
    if not (same := _group_alike(listing.classes, _normalize_number)):
        return ()
    told = shorten_list(" and ".join(_show_class(listing, name) for name in names) for names in same)
    place = listing.table or listing.folder
    return (f"{place}: classes that are the same number count as different: {told}; if they are one, write them alike",)


def _normalize_number(name: str) -> str:
    try:
        return str(float(name))
    except ValueError:
        return name


def _describe_no_value(listing: Listing) -> tuple[str, ...]:
    """Return a remark on a class whose name is what programs write for a missing value."""
    if not (found := [name for name in listing.classes if name.lower() in NO_VALUE]):
        return ()
    told, place = shorten_list(_show_class(listing, name) for name in found), listing.table or listing.folder
    remedy = "complete or remove their lines" if listing.table else "rename or remove the folder"
    if listing.multi_label:
        remedy = f"give `nothing: {found[0]}`, or remove it from their lines"
    return (f"{place}: a class with a name for missing values: {told}; if these images have no label, {remedy}",)


def _show_class(listing: Listing, name: str) -> str:
    """Return a class with the number of its images, one of them and its line in the table."""
    number = listing.classes.index(name)
    paths = [entry.path for entry in listing.entries if number in _list_labels(entry.label)]
    line = find_line(Path(listing.table), "table", paths[0]) if listing.table and paths else None
    return f"{name} ({len(paths)} images, such as {paths[0]}{f' in line {line}' if line else ''})" if paths else name


def _list_labels(label: int | tuple[int, ...]) -> list[int]:
    """Return the numbers of an image's classes, with those that it may have."""
    numbers = (label,) if isinstance(label, int) else label
    return [number if number >= 0 else ~number for number in numbers]


def _group_alike(classes: tuple[str, ...], find_key: Callable[[str], str]) -> list[list[str]]:
    """Return the classes that have the same key as another one, together."""
    groups: dict[str, list[str]] = {}
    for name in classes:
        groups.setdefault(find_key(name), []).append(name)
    return [names for names in groups.values() if len(names) > 1]


def _missing_classes(listing: Listing, split: str) -> list[str]:
    found = Counter(entry.label for entry in listing.entries if entry.split == split)
    return [name for label, name in enumerate(listing.classes) if not found[label]]


def _paths(listing: Listing, split: str) -> set[str]:
    return {entry.path for entry in listing.entries if entry.split == split}


def _refuse(listing: Listing, problem: str, remedy: str) -> OptionError:
    place = ("table", listing.table) if listing.table else ("folder", str(listing.folder))
    return OptionError(*place, problem, remedy)
