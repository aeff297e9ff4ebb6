"""Reads the results of searches. A search that failed in this call has none, and a later call repeats it."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypedDict

from howmanygpus.plan.cluster.retrying import STARTED

FAILED = ".failed.json"
"""Suffix of the file that says why a search failed, in place of its record."""
REFUSED, GAVE_UP = "refused", "failed"
"""Limits of searches that found nothing."""


class LargestBatch(TypedDict):
    """The result of a search. limit: what prevents a larger batch, or `failed` or `refused`. reason: why, in words."""

    largest: int
    limit: str
    reason: str


Find = Callable[[str], LargestBatch | None]
"""A function that maps the path of a search's record to its result; None if that is not known yet."""


def read_found(record: str) -> LargestBatch | None:
    """Return the result of a search, or None if it is not known. record: path of its record."""
    path = Path(record)
    if path.exists():
        return select(json.loads(path.read_text()))
    failed = path.with_suffix(FAILED)
    if failed.exists() and (found := json.loads(failed.read_text()))["call"] == os.environ.get(STARTED, ""):
        return select(found)
    return None


def select(found: dict) -> LargestBatch:
    return LargestBatch(largest=found["largest"], limit=found["limit"], reason=found["reason"])
