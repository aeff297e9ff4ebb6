"""Decides what a further attempt at a job requests: more time or memory if its earlier attempts lacked it."""

import calendar
import json
import os
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from howmanygpus.files import read_each
from howmanygpus.paths import ATTEMPTS
from howmanygpus.site.jobs.attempts import TIME_FORMAT
from howmanygpus.site.jobs.completing import complete_attempts
from howmanygpus.site.jobs.endings import ask_for_end
from howmanygpus.site.jobs.invocations import find_job_logs

STARTED = "HOWMANYGPUS_CALL_STARTED"
"""Environment variable with the start of the call of Snakemake. Jobs inherit it."""


@dataclass(frozen=True)
class Growth:
    """Factors by which an attempt requests more time and memory than the first one."""

    time: int = 1
    memory: int = 1


FIRST = Growth()
"""Factors of a first attempt."""


def record_call_start() -> None:
    """Note the start of this call, so that attempts of earlier calls change nothing. Jobs must not call this."""
    os.environ[STARTED] = time.strftime(TIME_FORMAT, time.gmtime())


def compute_growth(run: str, attempt: int, attempts: Path = ATTEMPTS) -> Growth:
    """Return how much more an attempt at a run requests, from the records of the call's earlier attempts.

    run: path of the run below results/runs/. attempt: its number in this call, from 1.
    """
    if attempt == 1:
        return FIRST
    folder, started = attempts / run, os.environ[STARTED]
    # An attempt that was killed has left no reason, but the next one depends on it.
    complete_attempts(folder)
    return _grow(record["status"] for record in read_attempts_since(folder, started))


def sum_used_min(run: str) -> float:
    """Return the known minutes of earlier attempts at a run in this call."""
    folder, started = ATTEMPTS / run, os.environ.get(STARTED, "")
    ended = [record for record in read_attempts_since(folder, started) if "finished_at" in record]
    # An attempt that has waited for other jobs of the machine has used it since, or never.
    spans = [(record.get("held_at", record["started_at"]), record["finished_at"]) for record in ended]
    times = [[datetime.fromisoformat(moment) for moment in span] for span in spans if span[0]]
    return sum((finished - began).total_seconds() for began, finished in times) / 60


def read_attempts_since(folder: Path, started: str) -> list[dict]:
    """Return the records of attempts whose folders' names begin with a time since `started`."""
    read = read_each(folder, "*/attempt.json", lambda path: (path.parent.name, json.loads(path.read_text())))
    return [record for name, record in read if name >= started]


def compute_growth_of_job(rule: str, wildcards: Iterable[str], attempt: int) -> Growth:
    """Return how much more an attempt at a job other than a run requests, from SLURM's state of the earlier jobs."""
    if attempt == 1:
        return FIRST
    started = calendar.timegm(time.strptime(os.environ[STARTED], TIME_FORMAT))
    logs = find_job_logs(f"rule_{rule}/{'_'.join(wildcards).replace('/', '_')}/*.log")
    ids = [path.stem for path in logs if path.stat().st_mtime >= started]
    return _grow(ask_for_end(job_id).get("status") for job_id in ids)


def _grow(statuses: Iterable[str | None]) -> Growth:
    ends = Counter(statuses)
    return Growth(time=1 + ends["time_limit"], memory=1 + ends["host_out_of_memory"])
