"""
The categories of the report, in the order of the questions that a reader asks.

Modules of figures and tables name theirs as CATEGORY. Snakemake sorts categories by their names and has no other order,
so that the names begin with their number.
"""

CATEGORIES = (
    DECISION := "Decision",
    "Scaling and why",
    "Batch size",
    "Time and price",
    SAME_WORK := "The same work?",
    EVERY_RUN := "Every run",
    TABLES := "Tables",
    MORE := "More",
)
"""The last one has what few readers need."""


def number_category(name: str) -> str:
    """Return a category as the report shows it. Raises ValueError for a name that is not in CATEGORIES."""
    if name not in CATEGORIES:
        raise ValueError(f"category {name!r}: the report has no such category; choose one of {', '.join(CATEGORIES)}")
    return f"{CATEGORIES.index(name) + 1} {name}"
