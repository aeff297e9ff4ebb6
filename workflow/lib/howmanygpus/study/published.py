"""Finds the tables of published numbers that studies can be set beside."""

import csv

from howmanygpus.clone import CLONE
from howmanygpus.config.errors import refuse, suggest

FOLDER = "workflow/published"
PUBLISHED_FOLDER = CLONE / FOLDER
SOURCES, PROTOCOLS = "sources", "protocols"
EPOCHS_BY_BATCH = "epochs_by_batch"
"""Listed among the columns with values if some results are numbers of epochs to a quality, by batch size."""


def list_published() -> list[str]:
    """Return the names of all tables of published numbers."""
    return sorted(path.stem for path in PUBLISHED_FOLDER.glob("*.tsv") if path.stem not in (SOURCES, PROTOCOLS))


def list_names(given: str | list[str] | None) -> list[str]:
    """Return the names in a study's key `published`: tables, and sources that publish no numbers."""
    return [given] if isinstance(given, str) else given or []


def check_published(place: str, given: str | list[str] | None) -> None:
    """Raise ConfigError for a name without a table or a source. place: of the study in the config."""
    known = {*list_published(), *(row["source"] for row in _list_without_numbers())}
    for position, name in enumerate(list_names(given)):
        if name not in known:
            where = f"{place}.published{f'[{position}]' if isinstance(given, list) else ''}"
            problem = f"is no table of {FOLDER}/, and no source in {FOLDER}/{SOURCES}.tsv without a table"
            raise refuse(where, name, problem, suggest(name, known))


def list_files(given: str | list[str] | None) -> list[str]:
    """Return the tables of published numbers and the table of sources, or nothing without a table."""
    tables = [name for name in list_names(given) if name in list_published()]
    return [str(PUBLISHED_FOLDER / f"{each}.tsv") for each in (*tables, SOURCES)] if tables else []


def read_rows(stem: str) -> list[dict[str, str]]:
    """Return the rows of a table as it stands, with empty texts for empty values."""
    with (PUBLISHED_FOLDER / f"{stem}.tsv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def choose_rows(config: dict) -> list[dict[str, str]]:
    """Return the published results to compare a study with: those of its own network from each table.

    From a table without any it returns those that name no network, or else all. config: that of the study.
    """
    chosen = []
    for name in list_names(config["published"]):
        rows = read_rows(name) if name in list_published() else []
        of_model = [[row for row in rows if row["model"] == model] for model in (config["model"], "")]
        chosen += next(filter(None, of_model), rows)
    return chosen


def list_published_columns(config: dict) -> set[str]:
    """Return the columns that have a value in some of a study's published results, and EPOCHS_BY_BATCH if some have."""
    rows = choose_rows(config)
    columns = {column for row in rows for column, value in row.items() if value}
    counted = [row for row in rows if row["epochs"] and row["global_batch_size"]]
    return columns | {EPOCHS_BY_BATCH for row in counted if not row["duration"] + row["images_per_s"]}


def describe_protocols(given: str | list[str] | None) -> dict[str, str]:
    """Return what was unfair in the sources of tables of published numbers, by the protocol that repeats it."""
    sources = {row["source"] for name in list_names(given) if name in list_published() for row in read_rows(name)}
    return {row["protocol"]: row["statement"] for row in read_rows(PROTOCOLS) if row["source"] in sources}


def describe_sources(config: dict) -> list[dict[str, str]]:
    """Return the rows of sources.tsv for a study: of its published results, in their order, and of sources without any.

    config: that of the study.
    """
    named = {row["source"]: row for row in read_rows(SOURCES)}
    without = {row["source"] for row in _list_without_numbers()}.intersection(list_names(config["published"]))
    return [named[source] for source in dict.fromkeys([*(row["source"] for row in choose_rows(config)), *without])]


def _list_without_numbers() -> list[dict[str, str]]:
    used = {row["source"] for name in list_published() for row in read_rows(name)}
    return [row for row in read_rows(SOURCES) if row["source"] not in used]
