"""
Records each job that uses devices: its devices, when it started, and how it ended.

Every job has a record of its own, which outlives the result of the job, because a run that is repeated costs twice. The
records of jobs that have ended are completed with the outcome of a run and with SLURM's times. A job of SLURM has its
devices from before its program starts until after its program ends, and is charged for all of it. Without an answer of
SLURM, a record keeps the times of its program.

A job may not write its record, as on a full disk or if it is replaced at once. Each job is therefore noted when it is
submitted, and SLURM tells of each of its starts that has no record.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from howmanygpus.base.machine_lock import HELD, read_held
from howmanygpus.files import write_json_atomic
from howmanygpus.measure.host.slurm import JOB
from howmanygpus.measure.records import now
from howmanygpus.paths import ATTEMPTS, JOBS, RUNS
from howmanygpus.site import slurm
from howmanygpus.site.jobs.attempts import TIME_FORMAT
from howmanygpus.site.jobs.completing import TERMINATED, write_if_room
from howmanygpus.site.jobs.endings import explain_job
from howmanygpus.site.jobs.invocations import is_alive, read_start_ticks
from howmanygpus.site.slurm import AT_ONCE, Job, SlurmError, list_accounted, list_queue

RUN, GATE, PROBE, ALLREDUCE = "run", "gate", "probe", "allreduce"
"""Kinds of jobs, which are the folders of their records."""
HELD_TIME_SUFFIX = ".held"
"""Suffix of the file beside a job's record that notes when it had the machine; see base.machine_lock."""
SUBMITTED_SUFFIX = ".submitted"
"""Suffix of the file beside a job's records that was written when the job was submitted."""
SIZE = ("device", "num_gpus", "num_nodes")
NOWHERE = ("", "None assigned", "(null)")
"""SLURM's words for the nodes of a job that has never had any."""
AWAY_S, PAUSE_S = 300.0, 5.0
"""How long a job that begins waits for a controller that is away, and the time between two questions, in seconds."""


def is_packed(placement: dict) -> bool:
    """Return whether a job shares an allocation of SLURM with others. placement: see measure.host.placement."""
    return slurm.read_job_id() is not None and placement.get("scheduler", "none") == "none"


def note_submission(kind: str, name: str, size: dict, job_id: str, **more: Any) -> None:
    """Note a job of SLURM that was submitted, until its records are complete. Arguments as in start_record."""
    path = JOBS / kind / name / f"job{job_id}{SUBMITTED_SUFFIX}"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json_atomic(path, {"kind": kind, "name": name, **{key: size[key] for key in SIZE}, **more, "job_id": job_id})


def start_record(kind: str, name: str, size: dict, packed: bool, **more: Any) -> Path:
    """Write the record of a job that starts now, and return its path.

    size: the values of SIZE. packed: whether the job is part of an allocation that it shares with others. more: further
    facts about the job, such as its framework, and `shares`, the share of its bill that each study has, by name.

    In a job of SLURM, the environment variable measure.host.slurm.JOB then describes it to the launchers that it
    starts. Raises SlurmError if they need its nodes, and the controller does not name them within AWAY_S.
    """
    job_id, pid, host = slurm.read_job_id(), os.getpid(), os.uname().nodename
    record: dict = {"kind": kind, "name": name, **{key: size[key] for key in SIZE}, **more}
    record |= {"status": "running", "reason": "", "pid": pid, "born": read_start_ticks(pid)}
    record |= {"hostname": host, "started_at": now()}
    # The probe takes no turn, and a job of SLURM has its devices all the time.
    record |= {"held_s": 0.0, "holding_since": None} if kind != PROBE and (packed or not job_id) else {}
    job = _find_job(job_id) if job_id else None
    if job_id:
        record["job"] = describe_job(job_id, job) | {"packed": packed}
    moment = time.strftime(TIME_FORMAT, time.gmtime())
    path = JOBS / kind / name / f"{moment}-{f'job{job_id}' if job_id and not packed else f'{host}-{pid}'}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json_atomic(path, record)
    os.environ[HELD] = str(path.with_suffix(HELD_TIME_SUFFIX).absolute())
    os.environ.pop(JOB, None)
    if job_id:
        # The steps of a packed job are processes of this host.
        nodes = [] if packed else _list_nodes(job_id, job)
        os.environ[JOB] = json.dumps({"record": record["job"], "nodes": nodes})
    return path


def _find_job(job_id: str) -> slurm.Job | None:
    """Return what the controller knows about this job; None if it does not answer."""
    with suppress(slurm.SlurmError):
        return slurm.find_job(job_id)
    return None


def _list_nodes(job_id: str, job: slurm.Job | None) -> list[str]:
    """Return the nodes of this job as soon as the controller names them. job: its earlier answer, if there was one."""
    until = time.monotonic() + AWAY_S
    while True:
        try:
            job = job or slurm.find_job(job_id)
            return slurm.list_nodes(job.nodes) if job else []
        except slurm.SlurmError:
            if time.monotonic() > until:
                raise
        time.sleep(PAUSE_S)


def describe_job(job_id: str, job: slurm.Job | None) -> dict:
    """Return the entry `job` of a record: what it asked for, what it was given, how long it waited.

    queue_wait_s: from the time at which the job could have started to its start. Without an answer of SLURM,
    `exclusive` is False, and everything else but the id None.
    """
    found = job or slurm.Job(job_id)
    started, eligible = found.started_at, found.eligible_at
    return {
        "id": job_id,
        "partition": found.partition or None,
        "nodes": found.nodes or None,
        "requested": found.requested or None,
        "allocated": found.allocated or None,
        "restarts": found.restarts if job else None,
        "exclusive": found.exclusive,
        "started_at": started,
        "queue_wait_s": None if started is None or eligible is None else max(0.0, started - eligible),
    }


@contextmanager
def recorded(kind: str, name: str, size: dict, packed: bool, **more: Any) -> Iterator[dict]:
    """Record a job from its start to its end. Yields the record, to which facts can be added. Arguments as in
    start_record.

    SIGTERM ends the block by SystemExit, so that the record says so.
    """
    path = start_record(kind, name, size, packed, **more)
    record = json.loads(path.read_text())
    signal.signal(signal.SIGTERM, lambda signum, frame: sys.exit(128 + signum))
    ending = {"status": "completed"}
    try:
        yield record
    except Exception as error:
        ending = {"status": "crashed", "reason": f"{type(error).__name__}: {error}"}
        raise
    except BaseException as error:
        ending = {"status": "interrupted", "reason": f"stopped by {type(error).__name__}"}
        raise
    finally:
        write_json_atomic(path, record | ending | {"finished_at": now()})


def share_equally(studies: Iterable[str]) -> dict[str, float]:
    names = list(studies)
    return dict.fromkeys(names, 1 / len(names))


def share_by_seconds(studies: dict[str, list[str]], seconds: dict[str, float]) -> dict[str, float]:
    """Return the share of each study in a job whose parts serve different studies.

    studies: those that each part serves, equally. seconds: how long each part took; if any is unknown, all count alike.
    """
    total = sum(seconds.values())
    weights = seconds if total > 0 and seconds.keys() == studies.keys() else dict.fromkeys(studies, 1.0)
    shares: dict[str, float] = {}
    for part, names in studies.items():
        for name in names:
            shares[name] = shares.get(name, 0.0) + weights[part] / sum(weights.values()) / len(names)
    return shares


def list_nodes(record: dict) -> list[str]:
    """Return the names of the nodes that a job uses: those of its SLURM job, else this host."""
    job = record.get("job") or {}
    if not job.get("nodes"):
        return [record["hostname"]]
    return slurm.list_nodes(job["nodes"])[: record["num_nodes"]]


ENDED_BY_SIGNAL = ("running", "interrupted", "crashed")
"""Statuses about which SLURM may know more than the job."""
TOLD = ("status", "reason", "finished_at")
"""Keys of a job's record that are taken from the outcome."""


def note_preemption(job: Job, jobs: Path = JOBS) -> None:
    """Write into the record of a job that it failed because of a preemption, which the controller soon forgets."""
    for path in jobs.rglob(f"*-job{job.id}.json"):
        record = json.loads(path.read_text())
        if record["status"] in ENDED_BY_SIGNAL:
            write_if_room(path, record | explain_job(job), leftovers=[])


def complete_and_list_jobs(jobs: Path = JOBS, results: Path = Path()) -> dict[str, dict]:
    """Complete the records of ended jobs, and return all records by their path. Arguments as in complete_jobs."""
    before, completed = complete_jobs(jobs, results)
    for path, record in completed.items():
        write_if_room(path, record, leftovers=[])
    records = before | completed
    for path, job_id in _list_submitted(jobs).items():
        own = [record for file, record in records.items() if _is_of(record, job_id) and file.exists()]
        num_starts = 1 + max((record["job"]["restarts"] or 0 for record in own), default=0)
        if len(own) >= num_starts and all(record.get("settled") for record in own):
            path.unlink(missing_ok=True)
    return {str(path): record for path, record in records.items()}


def complete_jobs(jobs: Path = JOBS, results: Path = Path()) -> tuple[dict[Path, dict], dict[Path, dict]]:
    """Return all records of jobs as they are, and completed versions of those that can be completed, by path.

    The latter include records for starts of jobs that have none. jobs: the folder of the records. results: the folder
    that holds `results/`.
    """
    records = {path: json.loads(path.read_text()) for path in sorted(jobs.rglob("*.json"))}
    waiting = {path: record for path, record in records.items() if not record.get("settled")}
    submitted = _list_submitted(jobs)
    known = ask_scheduler({*(each["job"]["id"] for each in waiting.values() if "job" in each), *submitted.values()})
    recovered: dict[Path, dict] = {}
    for path, job_id in submitted.items():
        own = [record for record in records.values() if _is_of(record, job_id)]
        recovered |= _recover(path, known.get(job_id, []), own, results)
    completed = {}
    for path, record in (waiting | recovered).items():
        told = read_outcome(path, record, results) if record["kind"] == RUN else {}
        answer = find_start(known.get(record["job"]["id"], []), record) if "job" in record else None
        held = read_held(path.with_suffix(HELD_TIME_SUFFIX)) if "held_s" in record else {}
        given = record | told | held | _explain_requeue(record, records.values())
        if (ended := complete(given, answer)) != record:
            completed[path] = ended
    return records, completed


def _explain_requeue(record: dict, records: Iterable[dict]) -> dict:
    """Return status and reason of a job that ended by a signal, after which SLURM started it again; otherwise empty.

    records: all, among which the later start has one of its own.
    """
    if record["kind"] == RUN or record["status"] not in ENDED_BY_SIGNAL or not record.get("job"):
        return {}
    if record["status"] == "crashed" and not record["reason"].endswith(TERMINATED):
        return {}
    job_id, restarts = record["job"]["id"], record["job"]["restarts"]
    later = [each for each in records if _is_of(each, job_id) and (each["job"]["restarts"] or 0) > (restarts or 0)]
    words = f"SLURM put job {job_id} into the queue again"
    return {"status": "interrupted", "reason": words} if later and restarts is not None else {}


def _list_submitted(jobs: Path) -> dict[Path, str]:
    """Return the ids of the submitted jobs whose records may be incomplete, by the path of their note."""
    return {path: path.stem.removeprefix("job") for path in sorted(jobs.rglob(f"*{SUBMITTED_SUFFIX}"))}


def _is_of(record: dict, job_id: str) -> bool:
    return record.get("job", {}).get("id") == job_id and not record["job"]["packed"]


def _recover(path: Path, answers: list[Job], own: list[dict], results: Path) -> dict[Path, dict]:
    """Return records for the starts of a job that have ended and have none, by path.

    path: of its note. A job that has ended and never had a node needs no record, so that its note is removed.
    answers: SLURM's, see ask_scheduler. own: the records that the job has written. results: as in complete_jobs.
    """
    starts = [answer for answer in answers if answer.nodes not in NOWHERE and answer.started_at is not None]
    if answers and not starts and all(map(has_ended, answers)):
        path.unlink(missing_ok=True)
    written = [find_start(starts, record) for record in own]
    try:
        noted = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    found = {}
    for answer in starts:
        if answer in written or not has_ended(answer):
            continue
        job_id, moment = noted["job_id"], time.strftime(TIME_FORMAT, time.gmtime(answer.started_at))
        record = {key: value for key, value in noted.items() if key != "job_id"}
        if record["kind"] == RUN:
            attempts = (results / ATTEMPTS / record["name"]).glob(f"*-job{job_id}")
            later = sorted(attempt.name for attempt in attempts if attempt.name >= moment)
            record["attempt"] = str(ATTEMPTS / record["name"] / (later[0] if later else f"{moment}-job{job_id}"))
        record |= {"status": "completed" if answer.state == "COMPLETED" else "running", "reason": "", "pid": 0}
        record |= {"born": None, "hostname": answer.nodes, "started_at": _to_moment(answer.started_at)}
        record |= {"finished_at": _to_moment(answer.ended_at)}
        record["job"] = describe_job(job_id, answer) | {"packed": False}
        found[path.with_name(f"{moment}-job{job_id}.json")] = record
    return found


def _to_moment(seconds: float | None) -> str:
    return datetime.fromtimestamp(seconds or 0.0, UTC).isoformat()


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

    record: see site.jobs.ledger. It was written after SLURM had started the job.
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
