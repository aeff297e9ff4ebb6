"""Reads the results of searches. A search that failed in this call has none, and a later call repeats it."""

import json
import os
from collections.abc import Callable
from pathlib import Path

from howmanygpus.plan.cluster.retrying import STARTED

FAILED = ".failed.json"
"""Suffix of the file that says why a search failed, in place of its record."""
REFUSED, GAVE_UP = "refused", "failed"
"""Limits of searches that found nothing."""

Find = Callable[[str], dict | None]
"""A function that maps the path of a search's record to its result; None if that is not known yet.

Keys: `largest` (0 if there is none), `limit` (what prevents a larger one, or `failed` or `refused`) and `reason`.
"""


def read_found(record: str) -> dict | None:
    """Return the result of a search, as Find describes it. record: path of its record."""
    path = Path(record)
    if path.exists():
        return select(json.loads(path.read_text()))
    failed = path.with_suffix(FAILED)
    if failed.exists() and (found := json.loads(failed.read_text()))["call"] == os.environ.get(STARTED, ""):
        return select(found)
    return None


def select(found: dict) -> dict:
    return {key: found[key] for key in ("largest", "limit", "reason")}
