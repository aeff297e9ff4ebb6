"""
Complete the records of jobs that have ended, with the outcome of a run and with SLURM's times.

A job of SLURM has its devices from before its program starts until after its program ends, and is charged for all of
it. Without an answer of SLURM, a record keeps the times of its program.
"""

import json
import os
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from howmanygpus.ledger.recording import HELD_TIME_SUFFIX, JOBS, RUN
from howmanygpus.site.slurm import AT_ONCE, Job, SlurmError, list_accounted, list_queue
from howmanygpus.train.start.attempts import RUNS
from howmanygpus.train.start.calls import is_alive
from howmanygpus.train.start.endings import explain_job
from howmanygpus.train.start.settling import write_if_room
from howmanygpus.train.turns import read_held

ENDED_BY_SIGNAL = ("running", "interrupted", "crashed")
"""Statuses about which SLURM may know more than the job."""
TOLD = ("status", "reason", "finished_at")
"""Keys of a job's record that are taken from the outcome."""


def complete_and_list_jobs(jobs: Path = JOBS, results: Path = Path()) -> dict[str, dict]:
    """Complete the records of ended jobs, and return all records by their path. Arguments as in complete_jobs."""
    before, completed = complete_jobs(jobs, results)
    for path, record in completed.items():
        write_if_room(path, record, leftovers=[])
    return {str(path): record for path, record in (before | completed).items()}


def complete_jobs(jobs: Path = JOBS, results: Path = Path()) -> tuple[dict[Path, dict], dict[Path, dict]]:
    """Return all records of jobs as they are, and completed versions of those that can be completed, by path.

    jobs: the folder of the records. results: the folder that holds `results/`.
    """
    records = {path: json.loads(path.read_text()) for path in sorted(jobs.rglob("*.json"))}
    waiting = {path: record for path, record in records.items() if not record.get("settled")}
    known = ask_scheduler(record["job"]["id"] for record in waiting.values() if "job" in record)
    completed = {}
    for path, record in waiting.items():
        told = read_outcome(path, record, results) if record["kind"] == RUN else {}
        answer = find_start(known.get(record["job"]["id"], []), record) if "job" in record else None
        held = read_held(path.with_suffix(HELD_TIME_SUFFIX)) if "held_s" in record else {}
        if (ended := complete(record | told | held, answer)) != record:
            completed[path] = ended
    return records, completed


def read_outcome(path: Path, record: dict, results: Path) -> dict:
    """Return the outcome of one job of a run from the records of the run and its attempts; empty if they have none."""
    attempt, run = results / record["attempt"] / "attempt.json", results / RUNS / record["name"] / "run.json"
    if attempt.exists():
        ended = json.loads(attempt.read_text())
        return {key: ended[key] for key in TOLD if key in ended} if ended["status"] != "running" else {}
    if not run.exists():
        return {}
    # The latest job that had started before the launcher is the one that published the run.
    ended = json.loads(run.read_text())
    later = [json.loads(other.read_text()) for other in path.parent.glob("*.json") if other.name > path.name]
    starts = [record["started_at"], *(other["started_at"] for other in later)]
    is_own = max((start for start in starts if start <= ended["started_at"]), default="") == record["started_at"]
    if is_own:
        return {key: ended[key] for key in TOLD}
    # Only an attempt that publishes its run removes its folder.
    is_replaced = bool(later) and not attempt.parent.exists()
    return {"status": "completed", "reason": "its results were replaced by those of a later job"} if is_replaced else {}


def ask_scheduler(job_ids: Iterable[str]) -> dict[str, list[Job]]:
    """Return SLURM's answers about some jobs, by id; a job that was requeued has one answer for each start.

    The accounting database is asked first, because it forgets nothing. The controller is asked about the jobs that are
    running according to the database, because it knows their end sooner, and about all if there is no database.
    """
    found: dict[str, dict[float | None, Job]] = {}
    ids = sorted(set(job_ids))
    for first in range(0, len(ids), AT_ONCE):
        some = ids[first : first + AT_ONCE]
        with suppress(SlurmError):
            for job in list_accounted(some, duplicates=True):
                found.setdefault(job.id, {})[job.started_at] = job
        ended = {job_id for job_id, starts in found.items() if all(map(has_ended, starts.values()))}
        if open_jobs := [job_id for job_id in some if job_id not in ended]:
            with suppress(SlurmError):
                for job in list_queue("all", own=False, ids=open_jobs):
                    known = found.setdefault(job.id, {}).get(job.started_at, job)
                    found[job.id][job.started_at] = replace(job, allocated=known.allocated)
    return {job_id: list(answers.values()) for job_id, answers in found.items()}


def find_start(answers: list[Job], record: dict) -> Job | None:
    """Return the answer about the start of a job to which a record belongs; None if SLURM does not know it.

    record: see ledger.recording. It was written after SLURM had started the job.
    """
    # The clock of a node may be slow.
    moment = max(record["job"]["started_at"] or 0.0, datetime.fromisoformat(record["started_at"]).timestamp())
    known = [answer for answer in answers if answer.started_at is not None and answer.started_at <= moment]
    return max(known, key=lambda answer: answer.started_at or 0.0, default=None)


def has_ended(job: Job) -> bool:
    return job.ended_at is not None


def count_seconds(job: Job) -> float:
    """Return the seconds for which a job has had its devices, until now if it has not ended."""
    assert job.started_at is not None, f"job {job.id} has no start"
    return max(0.0, (time.time() if job.ended_at is None else job.ended_at) - job.started_at)


def complete(record: dict, answer: Job | None) -> dict:
    """Return a record completed with the end of its job. answer: SLURM's, see ask_scheduler."""
    is_own_job = "job" in record and not record["job"]["packed"]
    # A job inside of a packed allocation may end before the allocation, but not after it.
    is_over = has_ended(answer) if is_own_job and answer else _has_left(record) or bool(answer and has_ended(answer))
    if answer and (has_ended(answer) or not is_own_job):
        counted = {"elapsed_s": count_seconds(answer), "allocated": answer.allocated or None}
        record = record | {"counted": counted | {"has_ended": has_ended(answer)}}
    if is_over and is_own_job and record["status"] in ENDED_BY_SIGNAL:
        record = record | explain_job(answer)
    if is_over and record["status"] == "running":
        record = record | {"status": "killed", "reason": "it ended without a word, as after kill -9 or a lost node"}
    is_counted = "job" not in record or record.get("counted", {}).get("has_ended", False)
    return record | ({"settled": True} if is_counted and record["status"] != "running" else {})


def _has_left(record: dict) -> bool:
    """Return whether the process of a job that ran on this host is gone."""
    return record["hostname"] == os.uname().nodename and not is_alive(record["pid"], record.get("born"))
