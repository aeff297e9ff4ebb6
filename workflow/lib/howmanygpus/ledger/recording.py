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
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from howmanygpus.files import write_json_atomic
from howmanygpus.train.host import slurm
from howmanygpus.train.start.calls import find_birth
from howmanygpus.train.turns import HELD

JOBS = Path("results/jobs")
RUN, GATE, PROBE, ALLREDUCE = "run", "gate", "probe", "allreduce"
"""Kinds of jobs, which are the folders of their records."""
HELD_SUFFIX = ".held"
"""Suffix of the file beside a job's record in which the job notes when it has the machine, see train.turns."""
SIZE = ("device", "num_gpus", "num_nodes")


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def is_packed(placement: dict) -> bool:
    """Return whether a job shares an allocation of SLURM with others. placement: see train.host.placement."""
    return slurm.find_job_id() is not None and placement.get("scheduler", "none") == "none"


def start_record(kind: str, name: str, size: dict, packed: bool, **more: Any) -> Path:
    """Write the record of a job that starts now, and return its path.

    size: the values of SIZE. packed: whether the job is part of an allocation that it shares with others. more: further
    facts about the job, such as its framework, and `shares`, the share of its bill that each study has, by name.
    """
    job_id, pid, host = slurm.find_job_id(), os.getpid(), os.uname().nodename
    record: dict = {"kind": kind, "name": name, **{key: size[key] for key in SIZE}, **more}
    record |= {"status": "running", "reason": "", "pid": pid, "born": find_birth(pid)}
    record |= {"hostname": host, "started_at": now()}
    # The probe takes no turn, and a job of SLURM has its devices all the time.
    record |= {"held_s": 0.0, "holding_since": None} if kind != PROBE and (packed or not job_id) else {}
    if job_id:
        record["job"] = slurm.describe_job(job_id) | {"packed": packed}
    moment = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    path = JOBS / kind / name / f"{moment}-{f'job{job_id}' if job_id and not packed else f'{host}-{pid}'}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json_atomic(path, record)
    os.environ[HELD] = str(path.with_suffix(HELD_SUFFIX).absolute())
    return path


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
    return slurm.list_nodes({"NodeList": job["nodes"]})[: record["num_nodes"]]
