"""Read label tables: CSV files, plain or compressed by gzip, also as Excel saves them."""

import csv
import gzip
import io
from pathlib import Path

from howmanygpus.prepare.sources import OptionError

DELIMITERS = (",", ";", "\t")
"""Excel writes semicolons in countries that write numbers with a decimal comma."""


def read_columns(path: Path, option: str, columns: list[tuple[str, str]]) -> list[tuple[str, ...]]:
    """Return the values of some columns in every row. columns: the option that names a column, and its name.

    A column is found by its position in the header, counted from the left. Unquoted commas in the names of other
    columns are therefore harmless if the data rows have as many values as the header. Raises OptionError.
    """
    text = read_text(path, option)
    header, delimiter = _read_header(text, [name for _, name in columns])
    for name_option, name in columns:
        if name not in header:
            raise OptionError(name_option, name, f"is no column of {path}", f"there are {', '.join(header)}")
    places = [header.index(name) for _, name in columns]
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    next(rows, [])
    found = []
    for row in rows:
        if len(row) <= max(places):
            if any(row):
                problem = f"has too few values in line {rows.line_num}"
                raise OptionError(option, str(path), problem, "complete or remove the line")
            continue
        found.append(tuple(row[place].strip() for place in places))
    return found


def list_columns(path: Path, option: str, wanted: list[str]) -> list[str]:
    """The names in a table's header; `wanted` are names that tell which delimiter the table has."""
    return _read_header(read_text(path, option), wanted)[0]


def read_text(path: Path, option: str) -> str:
    """The text of a table without Excel's byte-order mark. Raises OptionError if it is not UTF-8."""
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        problem = f"is not UTF-8 in line {line} (byte {content[error.start : error.start + 1].hex()})"
        raise OptionError(option, str(path), problem, "save it as UTF-8, in Excel as `CSV UTF-8`") from None


def _read_header(text: str, wanted: list[str]) -> tuple[list[str], str]:
    """The names in the header, and the delimiter by which most of the wanted names are found."""
    line = io.StringIO(text, newline="")
    headers = {}
    for delimiter in DELIMITERS:
        line.seek(0)
        headers[delimiter] = [name.strip() for name in next(csv.reader(line, delimiter=delimiter), [])]
    found = max(DELIMITERS, key=lambda delimiter: (len(set(wanted) & set(headers[delimiter])), len(headers[delimiter])))
    return headers[found], found
