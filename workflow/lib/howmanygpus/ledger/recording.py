"""
Record a job that uses devices: its devices, when it started, and how it ended.

Every job has a record of its own, which outlives the result of the job, because a run that is repeated costs twice.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from howmanygpus.files import write_json_atomic
from howmanygpus.site import slurm
from howmanygpus.train.host.slurm import JOB
from howmanygpus.train.records import now
from howmanygpus.train.start.attempts import TIME_FORMAT
from howmanygpus.train.start.calls import read_start_ticks
from howmanygpus.train.turns import HELD

JOBS = Path("results/jobs")
RUN, GATE, PROBE, ALLREDUCE = "run", "gate", "probe", "allreduce"
"""Kinds of jobs, which are the folders of their records."""
HELD_TIME_SUFFIX = ".held"
"""Suffix of the file beside a job's record in which the job notes when it has the machine, see train.turns."""
SIZE = ("device", "num_gpus", "num_nodes")
AWAY_S, PAUSE_S = 300.0, 5.0
"""How long a job that begins waits for a controller that is away, and the time between two questions, in seconds."""


def is_packed(placement: dict) -> bool:
    """Return whether a job shares an allocation of SLURM with others. placement: see train.host.placement."""
    return slurm.read_job_id() is not None and placement.get("scheduler", "none") == "none"


def start_record(kind: str, name: str, size: dict, packed: bool, **more: Any) -> Path:
    """Write the record of a job that starts now, and return its path.

    size: the values of SIZE. packed: whether the job is part of an allocation that it shares with others. more: further
    facts about the job, such as its framework, and `shares`, the share of its bill that each study has, by name.

    In a job of SLURM, the environment variable train.host.slurm.JOB then describes it to the launchers that it starts.
    Raises SlurmError if they need its nodes, and the controller does not name them within AWAY_S.
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
        # The probe starts no processes on other nodes, and the steps of a packed job are processes of this host.
        nodes = [] if packed or kind == PROBE else _list_nodes(job_id, job)
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
