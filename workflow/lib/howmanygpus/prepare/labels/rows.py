"""
Read the images of a data set with a table: path, text of the labels, split and group of each.

An image may have any number of labels, such as `Effusion|Mass`, or the presence of one of these findings.
"""

import difflib
import posixpath
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from howmanygpus.prepare.acquire.acquisition import acquire_downloads
from howmanygpus.prepare.labels.names import normalize
from howmanygpus.prepare.labels.splits import BY_FILE, Split, extract_groups, read_split
from howmanygpus.prepare.labels.tables import FileNames, list_columns, read_columns
from howmanygpus.prepare.sources import OptionError, check_folder, shorten_list

LIKENESS = 0.8
"""Ratio of difflib above which a value of the split column is considered a misspelt `train` or `test`."""
DIGIT = re.compile(r"\d")


@dataclass(frozen=True)
class LabelTable:
    """How a table is read; the fields are options of the data set."""

    table: str
    path_column: str
    label_column: str
    split_column: str
    train: str = "train"
    test: str = "test"
    split: dict | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One image. text: its labels as the table has them. split: train or test; empty if the option `split` splits."""

    path: str
    text: str
    split: str
    group: str = ""


def read_rows(table: LabelTable) -> tuple[list[Row], tuple[str, ...]]:
    """Return the images to prepare, in the order of the table, and remarks on those left out. Raises OptionError."""
    if not Path(table.table).is_file():
        raise OptionError("table", table.table, "is not a file here", "give the table of labels")
    if table.split is not None:
        return _read_unsplit(table, read_split(table.split))
    rows, values = _read_splits(table)
    _check_paths(table.table, rows)
    _check_values(table, values)
    others = Counter({value: count for value, count in values.items() if value not in (table.train, table.test)})
    if not others:
        return rows, ()
    neither = f"{table.split_column} is neither {table.train} nor {table.test}: {_describe_values(others)}"
    return rows, (f"{others.total()} of {values.total()} images left out, since {neither}",)


def read_images(
    folder: str | None, downloads: list | None, table: LabelTable
) -> tuple[Path, list[Row], tuple[str, ...]]:
    """Return the folder of the images and the results of read_rows().

    Images that are still to be fetched may be missing.
    """
    root, is_here = Path(folder or ""), not acquire_downloads(folder, downloads)
    if is_here:
        check_folder("folder", folder, "give a folder with the images")
    rows, remarks = read_rows(table)
    return root, _match_files(table.table, root, rows) if is_here else rows, remarks


def _match_files(table: str, folder: Path, rows: list[Row]) -> list[Row]:
    """Return the images with their paths as the file system has them; those of missing images stay as they are.

    Raises OptionError if the folder has none of the images, in place of an error for every file, and for a path that
    only looks like that of a file.
    """
    names = FileNames(folder)
    found = [names.find(row.path) for row in rows]
    if rows and not any(found):
        problem = f"names {rows[0].path}, which is not in {folder}, nor is any other of its {len(rows)} images"
        remedy = "write paths below the folder, with their ending, or correct the folder"
        raise OptionError("table", table, problem, remedy)
    pairs = [(row.path, path) for row, path in zip(rows, found, strict=True) if path]
    if alike := [(path, other) for path, other in pairs if normalize(path) != normalize(other)]:
        path, other = map(ascii, alike[0])
        problem = f"names {len(alike)} files that are not in {folder}, such as {path}, where {other} looks the same"
        raise OptionError("table", table, problem, "write the names as the files have them, or rename the files")
    return [replace(row, path=path) if path else row for row, path in zip(rows, found, strict=True)]


def _read_unsplit(table: LabelTable, split: Split) -> tuple[list[Row], tuple[str, ...]]:
    if (table.train, table.test) != ("train", "test"):
        problem, remedy = "is given together with train or test", "these name values of split_column; leave one out"
        raise OptionError("split", table.split, problem, remedy)
    rows = _read_groups(table, split)
    _check_paths(table.table, rows)
    if table.split_column in list_columns(Path(table.table), "table", [table.path_column, table.label_column]):
        return rows, (f"the column {table.split_column} of {table.table} is not used, since `split` is given",)
    return rows, ()


def _read_splits(table: LabelTable) -> tuple[list[Row], Counter]:
    """Return the images of both splits, and the number of images with each value of the column."""
    columns = [("path_column", table.path_column), ("label_column", table.label_column)]
    header = list_columns(Path(table.table), "table", [name for _, name in columns])
    if table.split_column not in header:
        problem, known = f"is no column of {table.table}", f"there are {', '.join(header)}"
        remedy = f"{known}; or split the images by `split: {{test: 0.2}}`"
        raise OptionError("split_column", table.split_column, problem, remedy)
    found = read_columns(Path(table.table), "table", [*columns, ("split_column", table.split_column)])
    names = {table.train: "train", table.test: "test"}
    for path, _, value in found:
        if value not in names:
            _refuse_misspelt(table, value, path)
    rows = [Row(path, text, names[value]) for path, text, value in found if value in names]
    return rows, Counter(value for _, _, value in found)


def _check_values(table: LabelTable, values: Counter) -> None:
    """Raise OptionError if a split has no images."""
    if table.train == table.test:
        remedy = "name another, or leave both out and split the images by `split: {test: 0.2}`"
        raise OptionError("test", table.test, "is the name of the training images too", remedy)
    for option, name in (("train", table.train), ("test", table.test)):
        if not values[name]:
            found = _describe_values(values)
            problem = f"is in no line of the column {table.split_column} of {table.table}, which has {found}"
            raise OptionError(option, name, problem, f"give one of these as `{option}`, or split by `split`")


def _refuse_misspelt(table: LabelTable, value: str, path: str) -> None:
    names_are_alike = _looks_like(table.train, table.test)
    for name in (table.train, table.test):
        if value.lower() == name.lower() or (_looks_like(value, name) and not names_are_alike):
            problem = f"has the value {value!r} for {path}, which looks like {name!r}"
            remedy = "correct it, or write another word for images to leave out"
            raise OptionError("split_column", table.split_column, problem, remedy)


def _looks_like(value: str, name: str) -> bool:
    """Return whether one may be a misspelling of the other; not if only digits differ, as in site1 and site3."""
    value, name = value.lower(), name.lower()
    if value != name and DIGIT.sub("", value) == DIGIT.sub("", name):
        return False
    return sorted(value) == sorted(name) or difflib.SequenceMatcher(None, value, name).ratio() >= LIKENESS


def _read_groups(table: LabelTable, split: Split) -> list[Row]:
    """Return the images with their groups: by the pattern, or by a column of this name."""
    columns = [("path_column", table.path_column), ("label_column", table.label_column)]
    path = Path(table.table)
    is_column = split.by != BY_FILE and split.by in list_columns(path, "table", [name for _, name in columns])
    if not is_column:
        found = read_columns(path, "table", columns)
        groups = extract_groups([name for name, _ in found], split)
        return [Row(name, text, "", group) for (name, text), group in zip(found, groups, strict=True)]
    rows = [
        Row(name, text, "", group) for name, text, group in read_columns(path, "table", [*columns, ("split", split.by)])
    ]
    if empty := [row.path for row in rows if not row.group]:
        problem = f"is an empty column of {len(empty)} images: {shorten_list(empty)}"
        raise OptionError("split", split.by, problem, "complete the table")
    return rows


def _describe_values(values: Counter) -> str:
    return shorten_list([f"{value or 'nothing'} ({count})" for value, count in values.most_common()], most=5)


def _check_paths(table: str, rows: list[Row]) -> None:
    seen: set[str] = set()
    for path in (row.path for row in rows):
        if not path:
            raise OptionError("table", table, "has a line without the path of an image", "complete or remove it")
        # ./a.png is a.png, which could otherwise be in both splits.
        file = posixpath.normpath(path)
        if file in seen:
            raise OptionError("table", table, f"names {file} twice", "keep one line for each image")
        if Path(path).is_absolute() or ".." in Path(path).parts:
            raise OptionError("table", table, f"names {path}, outside the folder", "write paths below the folder")
        seen.add(file)


USUAL_SEPARATORS = ("|", ";", ",")
MANY = 0.05
"""If more than this fraction of labelled images has another usual separator, that is probably no accident."""


class LabelParser:
    """Turns the texts of a label table into labels.

    classes: the known labels. nothing: the text of an image without labels. finding: one of the classes, which an
    image has (1) or lacks (0); None keeps all classes. unknown: prefix of the name of a label for which it is not known
    whether the image has it; None if there is no such label.
    """

    def __init__(
        self, classes: tuple[str, ...], separator: str, nothing: str, finding: str | None, unknown: str | None = None
    ):
        if finding is not None and finding not in classes:
            raise OptionError("finding", finding, "is no label of this data set", f"choose from {', '.join(classes)}")
        self._numbers = {name: number for number, name in enumerate(classes)}
        self._separator, self._nothing, self._finding, self._unknown = separator, nothing, finding, unknown
        self.multi_label = finding is None
        self.classes = classes if finding is None else (f"no {finding}", finding)

    def label(self, text: str) -> int | tuple[int, ...]:
        """Return the labels as Entry has them. Raises KeyError for a label that is not one of the classes."""
        names = split_text(text, self._separator, self._nothing)
        numbers = tuple(sorted({self._number_label(name) for name in names}))
        return numbers if self._finding is None else int(self._numbers[self._finding] in numbers)

    def _number_label(self, name: str) -> int:
        """Return the number of a label, or its complement if it is unknown whether the image has it."""
        known = strip_unknown(name, self._unknown)
        return self._numbers[known] if known == name else ~self._numbers[known]

    def is_known(self, text: str) -> bool:
        """Return whether the table says if the image has the finding; always true if all labels are kept."""
        names = split_text(text, self._separator, self._nothing)
        return self._finding is None or all(
            name == self._finding or strip_unknown(name, self._unknown) != self._finding for name in names
        )


def split_text(text: str, separator: str, nothing: str) -> list[str]:
    """Return the names of the labels in a text; `nothing` is the text of an image without labels."""
    names = (name.strip() for name in text.split(separator))
    return [name for name in names if name and name != nothing]


def remark_on_separator(texts: Iterable[str], separator: str, nothing: str) -> tuple[str, ...]:
    """Return a remark if the separator is in no text of a table, and another usual one is in many."""
    labelled = [text for text in texts if split_text(text, separator, nothing)]
    if any(separator in text for text in labelled):
        return ()
    for other in USUAL_SEPARATORS:
        found = [text for text in labelled if other in text]
        if len(found) > MANY * len(labelled):
            return (
                f"separator: {separator!r} is in the labels of no image, and {other!r} is in those of {len(found)} of "
                f"{len(labelled)}, such as {found[0]}; if it separates labels, give `separator: {other!r}`",
            )
    return ()


def strip_unknown(name: str, unknown: str | None) -> str:
    """Return the name of a label without the prefix `unknown`."""
    return name.removeprefix(unknown).strip() if unknown else name
