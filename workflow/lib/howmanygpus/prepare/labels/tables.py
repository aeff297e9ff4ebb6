"""Read label tables: CSV files, plain or compressed by gzip."""

import csv
import gzip
from pathlib import Path

from howmanygpus.prepare.sources import OptionError


def read_columns(path: Path, option: str, columns: list[tuple[str, str]]) -> list[tuple[str, ...]]:
    """Return the values of some columns in every row. columns: the option that names a column, and its name.

    A column is found by its position in the header, counted from the left. Unquoted commas in the names of other
    columns are therefore harmless if the data rows have as many values as the header. Raises OptionError.
    """
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", newline="") as file:
        rows = csv.reader(file)
        header = [name.strip() for name in next(rows, [])]
        for name_option, name in columns:
            if name not in header:
                raise OptionError(name_option, name, f"is no column of {path}", f"there are {', '.join(header)}")
        places = [header.index(name) for _, name in columns]
        found = []
        for row in rows:
            if len(row) <= max(places):
                if any(row):
                    problem = f"has too few values in line {rows.line_num}"
                    raise OptionError(option, str(path), problem, "complete or remove the line")
                continue
            found.append(tuple(row[place].strip() for place in places))
    return found
