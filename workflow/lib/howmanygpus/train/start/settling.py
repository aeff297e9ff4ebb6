"""
Complete the records of attempts whose launcher could not write how they ended: after kill -9, or on a lost node.

The scheduler or the process list knows how they ended. Snakemake asks them when it starts and when it ends, because the
tables are made from the records alone.
"""

import errno
import json
import os
import re
from dataclasses import asdict, dataclass
from pathlib import Path

from howmanygpus.files import read_each, write_json_atomic
from howmanygpus.train.host.slurm import ask, ask_for_job
from howmanygpus.train.start.calls import find_birth, identify_folder, is_alive
from howmanygpus.train.start.jobs import cancel, explain

OWNER, REPLACED = "owner.json", "replaced.json"
"""Files of an attempt that name its owner and the attempt that replaced it."""
ATTEMPTS, OLDER_ATTEMPTS = Path("results/attempts"), Path("results/logs/train")
ALIVE = {"PENDING", "RUNNING", "SUSPENDED"}
ALIVE |= {"CONFIGURING", "POWER_UP_NODE", "EXPEDITING", "RESIZING", "SIGNALING", "STOPPED", "COMPLETING", "STAGE_OUT"}
ALIVE |= {"REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD"}
"""States and flags of jobs that have not ended, or will start again (https://slurm.schedmd.com/job_state_codes.html).

SLURM's commands print one word for a job: a flag that they know, or else the state.
"""
DATABASE_LINE = re.compile(r"(?P<JobState>[A-Z_]+)(?: by [^|]*)?\|(?P<NodeList>[^|]*)\|(?P<TimeLimit>[^|]*)")
"""A line of sacct; sites wrap it in scripts that may print others."""
TERMINATED = ("exit status 143", "killed by SIGTERM")
"""Reasons of attempts that got SIGTERM while the controller was too busy to say why; 143 is 128 + SIGTERM."""


class OlderResultsError(Exception):
    """The results folder has results that this version would replace."""


@dataclass(frozen=True)
class Owner:
    """Owner of an attempt: the folder and the call that made it, and its job of SLURM or its process.

    folder_id: see calls.identify_folder. call: name of the call; None if it has not announced itself. job: None if the
    attempt is no job of its own.
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

    def is_at_work(self, attempt: Path) -> bool:
        """Whether the attempt is still running.

        A process on another host cannot be seen and counts as ended. A job of which SLURM says nothing may still run.
        """
        record = attempt / "attempt.json"
        if record.exists() and json.loads(record.read_text())["status"] != "running":
            return False
        if self.job:
            job = ask_for_job(self.job)
            return job is None or job.get("JobState") in ALIVE
        return self.host == os.uname().nodename and self.born is not None and find_birth(self.pid) == self.born


def find_working(folder: Path = Path(), run: str = "") -> list[tuple[Path, Owner]]:
    """Return the running attempts in a folder, each with its owner; those of all runs if no run's path is given.

    Attempts whose records were copied from another folder run there, if at all.
    """
    here = identify_folder(folder)

    def read(path: Path) -> tuple[Path, Owner, bool]:
        owner = Owner.read(path)
        return path.parent, owner, owner.folder_id == here and owner.is_at_work(path.parent)

    found = read_each(folder / ATTEMPTS / run, f"**/{OWNER}", read)
    return [(attempt, owner) for attempt, owner, is_working in found if is_working]


def cancel_older_attempts(attempts: Path, job_id: str) -> None:
    """Cancel the jobs of earlier attempts at a run: jobs of a Snakemake that was killed continue without it.

    attempts: the folder of the run's attempts. job_id: the job of the attempt that goes on.
    """
    for record in read_each(attempts, "*/attempt.json", lambda path: json.loads(path.read_text())):
        job = record.get("job", {})
        # A packed attempt has no job of its own: its allocation may do other runs, or be an interactive one.
        if record["status"] == "running" and job.get("id") not in (None, job_id) and not job.get("packed"):
            cancel(job["id"])


def ask_database(job_id: str) -> dict[str, str]:
    """Return what the accounting database knows of a job, under scontrol's names; empty without a database."""
    command = ["sacct", "--allocations", "--noheader", "--parsable2", "--format=State,NodeList,Timelimit", "-j", job_id]
    if not (found := [match for line in ask(command).splitlines() if (match := DATABASE_LINE.fullmatch(line))]):
        return {}
    return {"JobId": job_id, **found[-1].groupdict()}


def settle(attempts: Path = ATTEMPTS) -> list[Path]:
    """Complete the records of attempts that have ended without an outcome, or by a signal they could not explain.

    Returns the records that still said `running`. An attempt that another call publishes meanwhile is left out.
    """
    return [path for path in read_each(attempts, "**/attempt.json", _settle_attempt) if path]


def _settle_attempt(path: Path) -> Path | None:
    """Complete the record of an attempt if it has ended, and return its path if it still said `running`."""
    record = json.loads(path.read_text())
    if record.get("settled"):
        return None
    found = _name_quota(record)
    found |= _find_end(path.parent, record)
    # SLURM may take long to answer. Meanwhile the launcher may have written its own last words and ended.
    if not found or json.loads(path.read_text()) != record:
        return None
    write_if_room(path, record | found | {"settled": True})
    return path if record["status"] == "running" else None


def write_if_room(path: Path, record: dict) -> None:
    """Write a record. On a full disk it stays as it is until a later call."""
    try:
        write_json_atomic(path, record)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise


def _name_quota(record: dict) -> dict:
    """Return the status `disk_full` for an attempt that a disk quota ended, which the launcher records as a crash."""
    is_quota = record["status"] == "crashed" and os.strerror(errno.EDQUOT) in record.get("reason", "")
    return {"status": "disk_full"} if is_quota else {}


def _find_end(attempt: Path, record: dict) -> dict:
    """Status and reason of an attempt that could not tell them itself; empty if it told them, or may still run."""
    owner = Owner.read(attempt / OWNER) if (attempt / OWNER).exists() else None
    if owner and owner.folder_id != identify_folder() and record["status"] == "running":
        words = f"{owner.describe()} was doing it in {owner.folder}, from where its records were copied"
        return {"status": "killed", "reason": words}
    job = record.get("job")
    # The allocation of a packed attempt goes on after it.
    found = _find_end_of_process(record, owner) if not job or job.get("packed") else {}
    found = found or (_find_end_of_job(record) if job else {})
    if not (attempt / REPLACED).exists() or not (found or record["status"] in ("cancelled", "interrupted")):
        return found
    return {"status": "cancelled", "reason": f"replaced by {json.loads((attempt / REPLACED).read_text())['by']}"}


def _find_end_of_process(record: dict, owner: Owner | None) -> dict:
    """Status and reason of an attempt on this host whose process is gone; empty if it told them, or may still run."""
    is_here = record["host"]["hostname"] == os.uname().nodename if "host" in record else False
    born = owner.born if owner and owner.pid == record["pid"] else None
    if record["status"] != "running" or not is_here or is_alive(record["pid"], born):
        return {}
    return {"status": "killed", "reason": "the launcher ended without a word, as after kill -9 or a lost node"}


def _find_end_of_job(record: dict) -> dict:
    """Status and reason of an attempt whose job has ended, as SLURM knows them; empty if the attempt told them."""
    is_explained = record["status"] not in ("running", "interrupted") and record.get("reason") not in TERMINATED
    job_id = record["job"].get("id")
    if is_explained or job_id is None:
        return {}
    answer = ask_for_job(job_id)
    job = answer or ask_database(job_id)
    # Without an answer, as where there is no SLURM, the job may still run.
    if (answer is None and not job) or (job.get("JobState") in ALIVE and not is_older_start(record, job)):
        return {}
    found = explain(job)
    if record["status"] == "running":
        return found or {"status": "killed", "reason": f"job {job_id} ended without a word"}
    return found or {"status": record["status"]}


def is_older_start(record: dict, job: dict[str, str]) -> bool:
    """Whether SLURM has requeued the job since, so that the job that runs or waits now is another start of it."""
    restarts = record["job"]["restarts"]
    return restarts is not None and int(job.get("Restarts", 0)) > restarts


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
