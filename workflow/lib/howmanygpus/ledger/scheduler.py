"""Ask SLURM how long jobs had their devices, with one query for many jobs."""

import os
import subprocess
import time
from collections.abc import Iterable
from datetime import UTC, datetime

from howmanygpus.train.host.slurm import PATIENCE_S
from howmanygpus.train.start.settling import ALIVE

AT_ONCE = 1000
"""Largest number of jobs in one query, because the length of a command line is limited."""
NAMES = ("JobId", "JobState", "StartTime", "EndTime", "TimeLimit", "NodeList", "AllocTRES")
"""scontrol's names of the queried fields."""
SACCT = ["sacct", "--allocations", "--noheader", "--parsable2", "--duplicates"]
SACCT += ["--format=JobIDRaw,State,Start,End,Timelimit,NodeList,AllocTRES"]
SQUEUE = ["squeue", "--noheader", "--states=all", "--format=%i|%T|%S|%e|%l|%N"]
NOT_KNOWN = {"EndTime": ""}
TIMES = {"TZ": "UTC0", "SLURM_TIME_FORMAT": "standard"}
"""Variables for times in one format, whatever the user prefers. Local times exist twice when summer time ends."""


def ask_scheduler(job_ids: Iterable[str]) -> dict[str, list[dict]]:
    """Return SLURM's answers about some jobs, by id; a job that was requeued has one answer for each start.

    The accounting database is asked first, because it forgets nothing. The controller is asked about the jobs that are
    running according to the database, because it knows their end sooner, and about all if there is no database. EndTime
    is empty for a job that has not ended.
    """
    found: dict[str, dict[str, dict]] = {}
    ids = sorted(set(job_ids))
    for first in range(0, len(ids), AT_ONCE):
        some = ids[first : first + AT_ONCE]
        for answer in _ask(SACCT, some):
            found.setdefault(answer["JobId"], {})[answer["StartTime"]] = answer
        open_jobs = [job_id for job_id in some if not all(map(has_ended, found.get(job_id, {"": NOT_KNOWN}).values()))]
        for answer in _ask(SQUEUE, open_jobs) if open_jobs else ():
            # squeue gives the time at which a job is expected to end.
            end = {"EndTime": ""} if answer["JobState"] in ALIVE else {}
            known = found.setdefault(answer["JobId"], {})
            known[answer["StartTime"]] = known.get(answer["StartTime"], {}) | answer | end
    return {job_id: list(answers.values()) for job_id, answers in found.items()}


def _ask(command: list[str], job_ids: list[str]) -> list[dict]:
    command = [*command, f"--jobs={','.join(job_ids)}"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, env=os.environ | TIMES)
    except (OSError, subprocess.TimeoutExpired):
        return []
    if answer.returncode:
        return []
    # With several clusters, their names stand on lines of their own; wrappers of the commands may print others.
    rows = [line.split("|") for line in answer.stdout.splitlines()]
    found = [dict(zip(NAMES, row, strict=False)) for row in rows if len(row) > NAMES.index("NodeList") and all(row[:3])]
    # sacct names the user who cancelled a job, as in "CANCELLED by 1000".
    return [each | {"JobState": each["JobState"].split()[0]} for each in found]


def find_start(answers: list[dict], record: dict) -> dict:
    """Return the answer about the start of a job to which a record belongs; empty if SLURM does not know it.

    record: see ledger.recording. It was written after SLURM had started the job.
    """
    # SLURM's start was read as a local time, and the clock of a node may be slow.
    moment = max(record["job"]["started_at"] or 0.0, datetime.fromisoformat(record["started_at"]).timestamp())
    known = [answer for answer in answers if (to_seconds(answer["StartTime"]) or float("inf")) <= moment]
    return max(known, key=lambda answer: answer["StartTime"], default={})


def to_seconds(moment: str) -> float | None:
    """Convert SLURM's time in UTC to seconds since 1970; None for a time that is not known yet."""
    try:
        return datetime.fromisoformat(moment).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


def has_ended(answer: dict) -> bool:
    return to_seconds(answer["EndTime"]) is not None


def count_seconds(answer: dict) -> float:
    """Return the seconds for which a job has had its devices, until now if it has not ended."""
    started, ended = to_seconds(answer["StartTime"]), to_seconds(answer["EndTime"])
    assert started is not None, f"job {answer['JobId']} has no start"
    return max(0.0, (time.time() if ended is None else ended) - started)
