"""
What several tables tell about the samples of a run, from one reading of them.

A summary is kept in `results/summaries/`, because a new run changes the tables of its study and no summary of another
run. It is made again if a file of the run or any code of the library is another one.
"""

import functools
import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from howmanygpus.clone import LIBRARY
from howmanygpus.files import write_text_atomic
from howmanygpus.report.outcomes import Outcome
from howmanygpus.report.tables.helpers.measured_samples import USED, MeasuredTime, describe_samples
from howmanygpus.report.telemetry import read_telemetry
from howmanygpus.report.timelines import SERIES, describe_run, read_events

SUMMARIES = Path("results/summaries")
NUM_BINS = 200
"""Number of bins of a timeline."""
FILES = ("run.json", "events.jsonl", "telemetry.csv")
COLUMNS = tuple(dict.fromkeys([*USED, *SERIES]))


def summarize_samples(outcome: Outcome, results: Path) -> dict[str, Any]:
    """Return the rows of a run's timeline, and the columns of the table `utilisation` that its samples tell.

    results: the folder that holds `results/`. `measured` is empty if the run did not complete.
    """
    path, source = results / SUMMARIES / f"{outcome.path}.json", describe_source(outcome)
    if path.exists():
        kept = json.loads(path.read_text())
        if kept["source"] == source:
            return kept
    samples, events, record = read_telemetry(outcome.folder, COLUMNS), read_events(outcome.folder), outcome.record or {}
    made: dict[str, Any] = {"source": source, "measured": {}}
    made["timeline"] = describe_run(samples, events, record.get("wall_time_s"), NUM_BINS)
    if outcome.status == "completed":
        measured = MeasuredTime.read(record, events)
        made["measured"] = describe_samples(samples, measured, record) if measured.seconds else {}
    text = json.dumps(made)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text_atomic(path, text)
    return json.loads(text)


def describe_source(outcome: Outcome) -> dict[str, Any]:
    """Return what a summary is made from: the sizes and times of the run's files, its status, and the code."""
    paths = [outcome.folder / name for name in FILES]
    states = [path.stat() if path.exists() else None for path in paths]
    files = [[state.st_size, state.st_mtime_ns] if state else None for state in states]
    return {"files": files, "status": outcome.status, "code": hash_library()}


@functools.cache
def hash_library() -> str:
    """Return a hash of all code of the library, and of the packages that compute."""
    digest = hashlib.sha256(f"{np.__version__} {pd.__version__}".encode())
    for path in sorted(LIBRARY.rglob("*.py")):
        digest.update(f"{path.relative_to(LIBRARY)}\n".encode() + path.read_bytes())
    return digest.hexdigest()
