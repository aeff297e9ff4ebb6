"""
The numbers of a published study, as its source prints them, and values computed from them.

workflow/published/ has one table per study and `sources.tsv`, which names each source. A table has one row per result.
If a source has no date, `year` is the earliest that its hardware or software allows, such as `2020 or later`.
`duration` is in seconds or in minutes:seconds, as printed. With a `threshold` it is the time to reach it, and an empty
one means that it was never reached. Without a threshold, it is the duration of all `epochs` of `num_images`.

Runs of unfair protocols of published studies are left out of all comparisons but their own.
"""

from pathlib import Path

import pandas as pd

from howmanygpus.report.columns import BATCH, PLACE, SERIES, STUDY, TASK, list_columns
from howmanygpus.report.words import word

COLUMNS = (
    *("source", "series", "framework", "model", "input", "precision", "hardware", "num_gpus", "global_batch_size"),
    *("num_images", "epochs", "duration", "images_per_s", "quality_metric", "quality", "threshold"),
    *("price", "currency", "remark"),
)
SOURCES = ("source", "title", "authors", "year", "url", "protocol")
TEXTS = {"source", "series", "framework", "model", "input", "precision", "hardware", "duration", "quality_metric"}
TEXTS |= {"currency", "remark", "title", "authors", "year", "url", "protocol"}
DERIVED = (
    *("series", "framework", "model", "input", "precision", "hardware", "year", "num_gpus", "global_batch_size"),
    *("epochs", "duration_s", "images_per_s", "is_computed", "speedup", "scaling_efficiency"),
    *("quality_metric", "quality", "threshold", "reached", "price", "price_per_hour", "currency"),
    *("remark", "source", "title", "authors", "url"),
)
CURVE = ["source", "series", "model", "input", "precision", "hardware"]


class PublishedError(ValueError):
    """A table of published numbers is invalid. The message names file, column and remedy."""


def read_published(table: Path, sources: Path) -> pd.DataFrame:
    """Return the published results with the columns DERIVED, one row each. Raises PublishedError."""
    named = read_columns(sources, SOURCES)
    rows = read_columns(table, COLUMNS)
    for source in rows["source"]:
        if source not in set(named["source"]):
            raise PublishedError(f"{table}: source {source!r} is not in {sources}; add a row for it there")
    return derive(rows.merge(named, on="source", how="left"))


def read_columns(path: Path, columns: tuple[str, ...]) -> pd.DataFrame:
    """Read a table that must have these columns, in this order."""
    types = dict.fromkeys((column for column in columns if column in TEXTS), str)
    try:
        table = pd.read_csv(path, sep="\t", keep_default_na=False, na_values=[""], dtype=types)
    except (ValueError, UnicodeDecodeError) as error:
        raise PublishedError(f"{path}: {error}; write a table with tabs between its columns") from None
    if tuple(table.columns) != columns:
        raise PublishedError(f"{path}: the columns are {', '.join(table.columns)}; write {', '.join(columns)}")
    for column in columns:
        if column not in types and not pd.api.types.is_numeric_dtype(table[column]):
            raise PublishedError(f"{path}: {column} has a value that is no number; correct it or leave it empty")
    return table


def derive(rows: pd.DataFrame) -> pd.DataFrame:
    """Add rates, speed-ups and hourly prices. A rate that the source prints itself stays as printed."""
    seconds = rows["duration"].map(parse_duration, na_action="ignore").astype(float)
    is_to_threshold = rows["threshold"].notna()
    computed = (rows["num_images"] * rows["epochs"] / seconds).where(~is_to_threshold)
    table = rows.assign(
        duration_s=seconds,
        is_computed=rows["images_per_s"].isna() & computed.notna(),
        images_per_s=rows["images_per_s"].astype(float).fillna(computed),
        reached=seconds.notna().where(is_to_threshold),
        price_per_hour=rows["price"] / (seconds / 3600),
    )
    counts = {"num_gpus": "Int64", "global_batch_size": "Int64"}
    return add_speedup(table).astype(counts)[list(DERIVED)]


def parse_duration(text: str) -> float:
    """Return the seconds of a duration such as 26:50 (minutes and seconds) or 6278."""
    minutes, colon, seconds = text.rpartition(":")
    return 60 * float(minutes) + float(seconds) if colon else float(seconds)


def add_speedup(table: pd.DataFrame) -> pd.DataFrame:
    """Add the speed-up of each rate over the one-device rate of the same series, model, input and hardware.

    A series without a rate on one device has no speed-up.
    """
    alone = table["images_per_s"].where(table["num_gpus"] == 1)
    baseline = alone.groupby([table[name].fillna("") for name in CURVE]).transform("first")
    speedup = table["images_per_s"] / baseline
    return table.assign(speedup=speedup, scaling_efficiency=speedup / table["num_gpus"])


FIRST_EPOCH, OTHER_IMAGES = "first_epoch_inside", "eval_other_images"
BATCH_STATISTICS, AUGMENTATION = "eval_batch_statistics", "own_augmentation"
FIRST_STATISTICS, FROZEN_BATCHES, EVERY_LOSS = "eval_first_statistics", "frozen_batches", "read_every_loss"
PROTOCOLS = (
    *(FIRST_EPOCH, OTHER_IMAGES, BATCH_STATISTICS, AUGMENTATION),
    *(FIRST_STATISTICS, FROZEN_BATCHES, EVERY_LOSS),
)
"""Keys of a study's `protocols`, in the order of tables, figures and answers."""


COMPARED = list_columns(STUDY, TASK, SERIES, PLACE, BATCH, but=["framework", "variant", "placement"])
"""Columns that the frameworks of one order share."""
NO, YES, UNSURE, ONCE = "no", "yes", "unsure", "once"
"""Whether a protocol changes the order of frameworks; unsure within the spread of repeats, once by one repeat."""


def name_protocol(protocol: str) -> str:
    """Say what was unfair."""
    return word("tables", "protocol", name=protocol)


def describe_protocol(protocol: str) -> str:
    return word("tables", "not_comparable", name=protocol)


def is_fair(table: pd.DataFrame) -> pd.Series:
    """Return whether each row of a table with the column `protocol` is about a run that may be compared with others.

    Runs that follow an unfair protocol may not, and neither may control runs, which a column `control` names.
    """
    return table["protocol"].isna() & ~is_control(table)


def is_control(table: pd.DataFrame) -> pd.Series:
    """Return whether each row of a table is about a control run. Tables of old studies lack the column `control`."""
    return table["control"].notna() if "control" in table else pd.Series(False, table.index)


def drop_unfair(tables: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Return tables without the rows about control runs and about runs that follow an unfair protocol."""
    return {name: table[is_fair(table)] if "protocol" in table else table for name, table in tables.items()}
