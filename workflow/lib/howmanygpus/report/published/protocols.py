"""Wording for the unfair protocols of published studies, and functions that leave out their runs."""

import pandas as pd

FIRST_EPOCH, OTHER_IMAGES = "first_epoch_inside", "eval_other_images"
BATCH_STATISTICS, AUGMENTATION = "eval_batch_statistics", "own_augmentation"
WORDS = {
    FIRST_EPOCH: "the first epoch is inside, with first step, compilation and warm-up",
    OTHER_IMAGES: "evaluated on other images than in the other frameworks",
    BATCH_STATISTICS: "BatchNorm evaluates by the statistics of each batch",
    AUGMENTATION: "images are augmented otherwise than in the other frameworks",
}
"""What was unfair, by the key of a study's `protocols`, in the order of tables, figures and answers."""


def describe_protocol(name: str) -> str:
    return f"not comparable: {WORDS[name]}"


def is_fair(table: pd.DataFrame) -> pd.Series:
    """Return whether each row of a table with the column `protocol` is about a run without an unfair protocol."""
    return table["protocol"].isna()


def drop_unfair(tables: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Return tables without the rows about runs that follow an unfair protocol."""
    return {name: table[is_fair(table)] if "protocol" in table else table for name, table in tables.items()}
