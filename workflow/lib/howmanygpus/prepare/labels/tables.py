"""
Read label tables: CSV files, plain or compressed by gzip, including those that Excel saves.

A file that a table names in another way than the file system does is found, too.
"""

import csv
import gzip
import io
import itertools
import re
import zlib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from howmanygpus.prepare.labels.names import normalize, normalize_look
from howmanygpus.prepare.sources import OptionError

DELIMITERS = (",", ";", "\t")
"""Excel writes semicolons in countries that write numbers with a decimal comma."""
TOLD_DELIMITER = re.compile(r'"?sep=(.)"?\r?\n', re.IGNORECASE)
"""A first line that tells Excel the delimiter; the header follows."""


def read_columns(path: Path, option: str, columns: list[tuple[str, str]]) -> list[tuple[str, ...]]:
    """Return the values of some columns in every row. columns: the option that names a column, and its name.

    A column is found by its position in the header, counted from the left. Unquoted commas in the names of other
    columns are therefore harmless if the data rows have as many values as the header. Raises OptionError.
    """
    text = read_text(path, option)
    header, delimiter = _read_header(text, [name for _, name in columns], path, option)
    for name_option, name in columns:
        if name not in header:
            raise OptionError(name_option, name, f"is no column of {path}", f"there are {', '.join(header)}")
        if (count := header.count(name)) > 1:
            raise OptionError(name_option, name, f"names {count} columns of {path}", "rename or remove all but one")
    places = [header.index(name) for _, name in columns]
    rows = _read_rows(text, delimiter, path, option)
    next(rows, None)
    found = []
    for line, row in rows:
        # Excel saves lines of delimiters only below a table that once was longer.
        if not any(value.strip() for value in row):
            continue
        if len(row) <= max(places):
            problem = f"has too few values in line {line}"
            raise OptionError(option, str(path), problem, "complete or remove the line")
        found.append(tuple(row[place].strip() for place in places))
    if not found:
        raise OptionError(option, str(path), "has no line below its header", "write one line for each image")
    return found


def list_columns(path: Path, option: str, wanted: list[str]) -> list[str]:
    """Return the names in a table's header; `wanted` are names by which the table's delimiter is recognised."""
    return _read_header(read_text(path, option), wanted, path, option)[0]


def read_text(path: Path, option: str) -> str:
    """Return the text of a table without Excel's byte-order mark, its letters and accents composed as in Unicode's NFC.

    Raises OptionError if it cannot be read, is damaged, or is not UTF-8.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        problem = f"cannot be read: {error.strerror}"
        raise OptionError(option, str(path), problem, "make it readable, or give another table") from None
    try:
        content = gzip.decompress(content) if path.suffix == ".gz" else content
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        remedy = "copy or compress it again, or remove .gz from the name of a table that is not compressed"
        raise OptionError(option, str(path), f"is no complete gzip file ({error})", remedy) from None
    if not content.strip():
        raise OptionError(option, str(path), "is empty", "write a header and one line for each image")
    try:
        return normalize(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        problem = f"is not UTF-8 in line {line} (byte {content[error.start : error.start + 1].hex()})"
        raise OptionError(option, str(path), problem, "save it as UTF-8, in Excel as `CSV UTF-8`") from None


def _read_rows(text: str, delimiter: str, path: Path, option: str) -> Iterator[tuple[int, list[str]]]:
    """Yield each row with the line in which it begins, the header first. Raises OptionError."""
    told = TOLD_DELIMITER.match(text)
    rows = csv.reader(io.StringIO(text[told.end() :] if told else text, newline=""), delimiter=delimiter)
    first = 2 if told else 1
    line, last = first, first
    try:
        for row in rows:
            yield line, row
            line, last = rows.line_num + first, line
        if line - last > 1:
            # Without `strict`, an unclosed quotation mark turns the rest of the table into one value.
            line, rest = last, itertools.islice(io.StringIO(text, newline=""), last - 1, None)
            next(csv.reader(rest, delimiter=delimiter, strict=True))
    except csv.Error as error:
        problem = f"cannot be read from line {line} on ({error})"
        raise OptionError(option, str(path), problem, "look there for a quotation mark that is not closed") from None


def _read_header(text: str, wanted: list[str], path: Path, option: str) -> tuple[list[str], str]:
    """Return the names in the header, and the delimiter by which most of the wanted names are found."""
    headers, told = {}, TOLD_DELIMITER.match(text)
    for delimiter in (told[1],) if told else DELIMITERS:
        _, row = next(_read_rows(text, delimiter, path, option), (1, []))
        headers[delimiter] = [name.strip() for name in row]
    found = max(headers, key=lambda delimiter: (len(set(wanted) & set(headers[delimiter])), len(headers[delimiter])))
    return headers[found], found


def find_line(path: Path, option: str, name: str) -> int | None:
    """Return the line of a table that has a value; None if there is none. Raises OptionError."""
    text = read_text(path, option)
    _, delimiter = _read_header(text, [name], path, option)
    return next((line for line, row in _read_rows(text, delimiter, path, option) if name in map(str.strip, row)), None)


WAYS: tuple[Callable[[str], str], ...] = (str, normalize, normalize_look, lambda name: normalize_look(name).casefold())
"""How names are compared, from the strictest way to the loosest: names with the same result are alike."""


class FileNames:
    """The names below a folder. Each folder is listed once, and only if a path is not found as it is written."""

    def __init__(self, root: Path):
        self._root = root
        self._index = cache(_index_names)

    def find(self, path: str) -> str | None:
        """Return the path of an existing file that is the same text or, if there is none, looks the same; else None.

        A name is the same text if only letters and accents are composed in another way, as macOS does.
        """
        try:
            (self._root / path).lstat()
            return path
        except FileNotFoundError:
            pass
        except OSError:
            # The file, or a folder on the way to it, cannot be read. Preparing it will say why.
            return path
        found = Path()
        for name in Path(path).parts:
            indices = self._index(self._root / found)
            match = next((index[way(name)] for way, index in zip(WAYS, indices, strict=True) if way(name) in index), "")
            if not match:
                return None
            found /= match
        return str(found)


def _index_names(folder: Path) -> list[dict[str, str]]:
    """Return the names in a folder for each of WAYS, by the result of that way."""
    try:
        names = sorted(path.name for path in folder.iterdir())
    except OSError:
        names = []
    return [{way(name): name for name in names} for way in WAYS]
