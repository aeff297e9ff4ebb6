"""Joins tables as texts, without pandas, whose import takes longer."""

import csv
import sys
from pathlib import Path

from howmanygpus.files import atomic_path

RECORD = "record"
"""Column with the name of a record that several studies may share."""


def merge_tables(parts: list[Path], table: Path) -> None:
    """Write the rows of all parts, whose values stay as they are.

    A record that serves all studies alike has one row, and one that belongs to studies has a row for each.
    """
    columns: dict[str, None] = {}
    rows: list[dict[str, str]] = []
    usual = csv.field_size_limit(sys.maxsize)  # A reason may be longer than the usual limit.
    try:
        for part in parts:
            with open(part, newline="") as file:
                reader = csv.DictReader(file, delimiter="\t")
                columns |= dict.fromkeys(reader.fieldnames or ())
                rows += reader
    finally:
        csv.field_size_limit(usual)
    if RECORD in columns:
        last = {(row.get(RECORD, ""), row.get("study", "")): position for position, row in enumerate(rows)}
        rows = [rows[position] for position in sorted(last.values())]
    with atomic_path(table) as partial, open(partial, "w", newline="") as file:
        writer = csv.DictWriter(file, list(columns), restval="", delimiter="\t", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
