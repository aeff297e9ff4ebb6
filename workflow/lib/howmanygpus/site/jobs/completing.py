"""
Complete the records of attempts that have ended without an outcome.

A launcher records what it knows of its end: an exit status, a signal, an error. What it left behind, the scheduler and
the process list know why. A launcher that was gone at once, by kill -9 or with a lost node, has recorded nothing.
Snakemake completes the records when it starts, when a job fails, and when it ends, because the tables are made from the
records alone.
"""

import errno
import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

from howmanygpus.base.secrets import make_hiding
from howmanygpus.files import read_each, write_json_atomic
from howmanygpus.measure.records import AttemptFolder
from howmanygpus.paths import ATTEMPTS
from howmanygpus.site import slurm
from howmanygpus.site.jobs.endings import explain_crash, explain_full_disk, explain_job
from howmanygpus.site.jobs.invocations import identify_folder, is_alive, read_start_ticks
from howmanygpus.site.slurm import Job, SlurmError

OWNER, REPLACED = "owner.json", "replaced.json"
"""Files of an attempt that name its owner and the attempt that replaced it."""
OLDER_ATTEMPTS = Path("results/logs/train")
LARGE = (".csv", ".npz", ".safetensors")
"""Suffixes of files that grow with the length of a run or the size of a network."""
FAILED_BY_ITSELF = ("crashed", "no_rendezvous")
"""Statuses of attempts whose processes may have ended by the signal of a preemption."""
TERMINATED = ("exit status 143", "killed by SIGTERM")
"""Reasons of attempts that got SIGTERM while the controller was too busy to say why; 143 is 128 + SIGTERM."""


class OlderResultsError(Exception):
    """The results folder has results that this version would replace."""


@dataclass(frozen=True)
class Owner:
    """Owner of an attempt: the folder and the call that made it, and its job of SLURM or its process.

    folder_id: see site.jobs.invocations.identify_folder. call: name of the call; None if it has not announced itself.
    job: None if the attempt is no job of its own.
    """

    folder: str
    folder_id: str
    call: str | None
    job: str | None
    host: str
    pid: int
    born: int | None

    @classmethod
    def read(cls, path: Path) -> "Owner":
        return cls(**json.loads(path.read_text()))

    def write(self, path: Path) -> None:
        write_json_atomic(path, asdict(self))

    def describe(self) -> str:
        return f"job {self.job}" if self.job else f"process {self.pid} on {self.host}"

    def is_under_way(self, attempt: Path) -> bool:
        """Whether the attempt is still running.

        A process on another host cannot be seen and counts as ended. A job of which SLURM says nothing may still run.
        """
        record = attempt / "attempt.json"
        if record.exists() and json.loads(record.read_text())["status"] != "running":
            return False
        if self.job:
            try:
                job = slurm.find_job(self.job)
            except SlurmError:
                return True
            return job is not None and job.is_alive
        return self.host == os.uname().nodename and self.born is not None and read_start_ticks(self.pid) == self.born


def list_running_attempts(folder: Path = Path(), run: str = "") -> list[tuple[Path, Owner]]:
    """Return the running attempts in a folder, each with its owner; those of all runs if no run's path is given.

    Attempts whose records were copied from another folder run there, if at all.
    """
    here = identify_folder(folder)

    def read(path: Path) -> tuple[Path, Owner, bool]:
        owner = Owner.read(path)
        return path.parent, owner, owner.folder_id == here and owner.is_under_way(path.parent)

    found = read_each(folder / ATTEMPTS / run, f"**/{OWNER}", read)
    return [(attempt, owner) for attempt, owner, is_working in found if is_working]


def complete_attempts(attempts: Path = ATTEMPTS, slurm: Any = slurm) -> list[Path]:
    """Complete the records of attempts that have ended without an outcome. slurm: the client that knows of jobs.

    Returns the records that still said `running`. An attempt that another call publishes meanwhile is left out.
    """
    return [path for path in read_each(attempts, "**/attempt.json", partial(_settle_attempt, slurm)) if path]


def _settle_attempt(slurm: Any, path: Path) -> Path | None:
    """Complete the record of an attempt if it has ended, and return its path if it still said `running`."""
    record = json.loads(path.read_text())
    if record.get("settled"):
        return None
    found = _find_end(slurm, path.parent, record)
    # SLURM may take long to answer. Meanwhile the launcher may have written how it ended.
    if found is None or json.loads(path.read_text()) != record:
        return None
    _hide_secrets(path.parent, record)
    write_if_room(path, record | found | {"settled": True}, list_leftovers(AttemptFolder(path.parent)))
    return path if record["status"] == "running" else None


def _hide_secrets(attempt: Path, record: dict) -> None:
    """Replace secrets in what a program has reported, and in its specification, whose addresses the record has not."""
    reports = attempt / "report.jsonl"
    with suppress(OSError):  # most attempts have no such file
        reports.write_text(make_hiding(os.environ)(reports.read_text(errors="replace")))
    for path in attempt.rglob("spec.json"):
        with suppress(OSError):
            if "spec" in record and json.loads(path.read_text()) != record["spec"]:
                write_json_atomic(path, record["spec"])


def write_if_room(path: Path, record: dict, leftovers: list[Path]) -> None:
    """Write a record, on a full disk too: it is worth more than files that an attempt has left over.

    leftovers: files that are removed if there is no room. If that does not help, the record stays as it is until a
    later call.
    """
    while True:
        try:
            return write_json_atomic(path, record)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
        if not leftovers:
            return
        delete_leftover(leftovers.pop(0))


def list_leftovers(attempt: AttemptFolder) -> list[Path]:
    """Return the files that are removed to make room for the record: samples and arrays first, events last.

    The files with the attempt's owner, its specification, and the attempt that replaced it stay.
    """
    stays = [attempt.record, attempt.spec, attempt.placement, attempt.events]
    stays += [attempt.path / OWNER, attempt.path / REPLACED]
    files = [path for path in attempt.path.rglob("*") if path.is_file() and path not in stays]
    events = [attempt.events] if attempt.events.exists() else []
    return sorted(files, key=lambda path: not (path.suffix in LARGE or path.name.startswith("."))) + events


def delete_leftover(path: Path) -> None:
    """Remove a file. It is emptied first, because a process that still has it open would keep its space."""
    with suppress(OSError):
        os.truncate(path, 0)
    path.unlink(missing_ok=True)


def _find_end(slurm: Any, attempt: Path, record: dict) -> dict | None:
    """Return what completes the record of an attempt, or None if it may still run or SLURM cannot tell its end yet."""
    owner = Owner.read(attempt / OWNER) if (attempt / OWNER).exists() else None
    if owner and owner.folder_id != identify_folder() and record["status"] == "running":
        words = f"{owner.describe()} was doing it in {owner.folder}, from where its records were copied"
        return {"status": "killed", "reason": words}
    told, job = explain_crash(AttemptFolder(attempt), record), record.get("job")
    # The allocation of a packed attempt goes on after it.
    found = _explain_end_of_process(record, owner) if not job or job.get("packed") else None
    if found is None and job:
        found = _explain_end_of_job(slurm, record | told)
    if found is None:
        return None
    if found.get("status") == "killed":
        # A launcher cannot record its end on a full disk.
        found |= explain_full_disk(AttemptFolder(attempt))
    if (attempt / REPLACED).exists() and (found or record["status"] in ("cancelled", "interrupted")):
        return {"status": "cancelled", "reason": f"replaced by {json.loads((attempt / REPLACED).read_text())['by']}"}
    return told | found


def _explain_end_of_process(record: dict, owner: Owner | None) -> dict | None:
    """Return status and reason of an attempt on this host whose process is gone; None if it may still run.

    The result is empty if the launcher has recorded the end, unless a job of SLURM may tell more.
    """
    if record["status"] != "running":
        return None if "job" in record else {}
    is_here = record["host"]["hostname"] == os.uname().nodename if "host" in record else False
    born = owner.born if owner and owner.pid == record["pid"] else None
    if not is_here or is_alive(record["pid"], born):
        return None
    return {"status": "killed", "reason": "the launcher ended without a word, as after kill -9 or a lost node"}


def _explain_end_of_job(slurm: Any, record: dict) -> dict | None:
    """Return status and reason of an attempt whose job has ended, as SLURM knows them; None if it may still run.

    The result is empty if the record tells the end.
    """
    if record["status"] not in ("running", "interrupted") and record.get("reason") not in TERMINATED:
        return _explain_preemption(slurm, record) if record["status"] in FAILED_BY_ITSELF else {}
    if (job_id := record["job"].get("id")) is None:
        return None if record["status"] == "running" else {}
    try:
        job = slurm.look_up(job_id)
    except SlurmError:
        return None
    if job and job.is_alive and not was_requeued(record, job):
        return None
    if found := explain_job(job):
        return found
    if record["status"] == "running":
        return {"status": "killed", "reason": f"job {job_id} ended without a word"}
    return {}


def _explain_preemption(slurm: Any, record: dict) -> dict | None:
    """Return status and reason of an attempt that failed because its processes got the signal of a preemption.

    The result is empty for any other, also if SLURM does not answer, and None if a preempted job has not ended yet.
    """
    job = None
    if record["job"].get("id") and not record["job"].get("packed"):
        with suppress(SlurmError):
            job = slurm.find_job(record["job"]["id"])
    if job is None or (job.preempted_at or 0.0) < (job.started_at or inf):
        return {}
    return None if job.is_alive and not was_requeued(record, job) else explain_job(job)


def was_requeued(record: dict, job: Job) -> bool:
    """Whether SLURM has requeued the job since, so that the job that runs or waits now is another start of it."""
    restarts = record["job"]["restarts"]
    return restarts is not None and job.restarts > restarts


def refuse_older_results(older_attempts: Path = OLDER_ATTEMPTS) -> None:
    """Raise OlderResultsError for results of version 0.1, whose runs this version would silently replace.

    Version 0.1 has a folder of attempts for each run (study/framework/variant/cell) where this version has a log. Every
    Snakemake process looks there, also in jobs, so only folders are looked into; the logs may be thousands.
    """
    for run in older_attempts.glob("*/*/*/*/"):
        if (run / ".publishing.lock").exists() or any(run.glob("*/attempt.json")):
            raise OlderResultsError(
                f"results: {run} was written by version 0.1, and all code has moved since: every run would be done "
                "again and replaced; keep them with `mv results results-0.1`, or continue with the version that made "
                "them"
            )
