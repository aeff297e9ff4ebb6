"""
The published numbers beside which a study stands: those of the table in workflow/published/ that its key `published`
names, for its own model.

`is_computed` says whether `images_per_s` follows from images, epochs and duration, instead of being printed by the
source. Durations contain what the source counted, such as validation; `protocol` in sources.tsv says what.
"""

from pathlib import Path

import pandas as pd

from howmanygpus.report.published.reading import DERIVED, read_published

READS = ("published",)
COLUMNS = ("study", *DERIVED)


def tabulate(plan: dict, published: list[Path]) -> pd.DataFrame:
    """One row per published result. published: the table and the sources, see report.published.reading."""
    table = read_published(*published)
    of_model = table["model"].eq(plan["config"]["model"]) | table["model"].isna()
    chosen = table[of_model] if of_model.any() else table
    return chosen.assign(study=plan["study"])[list(COLUMNS)]
