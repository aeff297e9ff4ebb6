"""
The categories of the report, in the order of the questions that a reader asks.

Snakemake sorts categories by their names and has no other order, so that the names begin with their number.
"""

CATEGORIES = (
    "Answer",
    "Scaling",
    "Batch size",
    "Time and cost to target",
    "Where the time goes",
    "Frameworks",
    "Parity",
    "All runs",
    "Tables",
)


def number_category(name: str) -> str:
    """Return a category as the report shows it. Raises ValueError for a name that is not in CATEGORIES."""
    if name not in CATEGORIES:
        raise ValueError(f"category {name!r}: the report has no such category; choose one of {', '.join(CATEGORIES)}")
    return f"{CATEGORIES.index(name) + 1} {name}"
