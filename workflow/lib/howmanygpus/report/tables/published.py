"""
The published numbers to compare a study with, from the tables in workflow/published/ that its key `published` names.
From each table they are those for the study's own network; without any, those that name no network, or else all.

`is_computed` says whether `images_per_s` follows from images, epochs and duration, instead of being printed by the
source. Durations contain what the source counted, such as validation; `protocol` in sources.tsv says what.
"""

from pathlib import Path

import pandas as pd

from howmanygpus.report.published import DERIVED, read_published

READS = ("published",)
COLUMNS = ("study", *DERIVED)


def tabulate(plan: dict, published: list[Path]) -> pd.DataFrame:
    """One row per published result. published: the tables, and last the sources, see report.published."""
    *tables, sources = published
    chosen = [choose_rows(read_published(table, sources), plan["config"]["model"]) for table in tables]
    return pd.concat(chosen, ignore_index=True).assign(study=plan["study"])[list(COLUMNS)]


def choose_rows(table: pd.DataFrame, model: str) -> pd.DataFrame:
    """Return the rows of a table for a network. study.published decides by the same rule which figures exist."""
    for rows in (table[table["model"] == model], table[table["model"].isna()]):
        if len(rows):
            return rows
    return table
