"""Reads what searches have found. A search that failed in this call has found nothing, and a later call repeats it."""

import json
import os
from collections.abc import Callable
from pathlib import Path

from howmanygpus.plan.cluster.retrying import STARTED

FAILED = ".failed.json"
"""End of the name of the file that says why a search failed, in place of its record."""
REFUSED, GAVE_UP = "refused", "failed"
"""Limits of searches that found nothing."""

Find = Callable[[str], dict | None]
"""A function from a search's record to what it found; None if that is not known yet.

Keys: `largest` (0 if there is none), `limit` (why no larger one is the answer, or `failed` or `refused`) and `reason`.
"""


def read_found(record: str) -> dict | None:
    """Return what is known of a search."""
    path = Path(record)
    if path.exists():
        return select(json.loads(path.read_text()))
    failed = path.with_suffix(FAILED)
    if failed.exists() and (found := json.loads(failed.read_text()))["call"] == os.environ.get(STARTED, ""):
        return select(found)
    return None


def select(found: dict) -> dict:
    return {key: found[key] for key in ("largest", "limit", "reason")}
