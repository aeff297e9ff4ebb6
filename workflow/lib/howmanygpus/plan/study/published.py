"""Finds the tables of published numbers that studies can be set beside."""

import csv
from pathlib import Path

from howmanygpus.plan.config.errors import refuse, suggest

FOLDER = Path("workflow/published")
HERE = Path(__file__).resolve().parents[4] / "published"
SOURCES, PROTOCOLS = "sources", "protocols"


def list_published() -> list[str]:
    return sorted(path.stem for path in HERE.glob("*.tsv") if path.stem not in (SOURCES, PROTOCOLS))


def check_published(place: str, name: str | None) -> None:
    """Raise ConfigError for a name without a table. place: of the study in the config."""
    if name is not None and name not in list_published():
        problem = f"is no table of {FOLDER}/"
        raise refuse(f"{place}.published", name, problem, suggest(name, list_published()))


def list_files(name: str | None) -> list[str]:
    """Return the table of published numbers and the table of sources, or nothing without a name."""
    return [str(FOLDER / f"{each}.tsv") for each in (name, SOURCES)] if name else []


def read_rows(stem: str) -> list[dict[str, str]]:
    """Return the rows of a table as it stands, with empty texts for empty values."""
    with (HERE / f"{stem}.tsv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def find_columns(name: str | None) -> set[str]:
    """Return the columns of a table that have a value in some row."""
    rows = [] if name is None else read_rows(name)
    return {column for row in rows for column, value in row.items() if value}


def describe_protocols(name: str | None) -> dict[str, str]:
    """Return what was unfair in the sources of a table of published numbers, by the protocol that repeats it."""
    sources = {source["source"] for source in describe_sources(name)}
    return {row["protocol"]: row["statement"] for row in read_rows(PROTOCOLS) if row["source"] in sources}


def describe_sources(name: str | None) -> list[dict[str, str]]:
    """Return the rows of sources.tsv that a table of published numbers names, in its order."""
    if name is None:
        return []
    named = {row["source"]: row for row in read_rows(SOURCES)}
    return [named[source] for source in dict.fromkeys(row["source"] for row in read_rows(name))]
