"""Explain why an attempt ended without an outcome: by its job of SLURM, its exit status, and what it left behind."""

import errno
import json
import os
import re
import signal
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from howmanygpus.measure.host.slurm import find_out_of_memory
from howmanygpus.measure.records import AttemptFolder
from howmanygpus.site.jobs.invocations import find_job_logs
from howmanygpus.site.slurm import Job, SlurmError, look_up

STATES = {
    "TIMEOUT": ("time_limit", "SLURM ended the job at its time limit of {job.time_limit}"),
    "DEADLINE": ("time_limit", "SLURM ended the job at its deadline"),
    "CANCELLED": ("cancelled", "the job was cancelled"),
    "PREEMPTED": ("preempted", "SLURM gave the job's nodes to another"),
    "NODE_FAIL": ("node_failed", "SLURM lost a node of the job ({job.nodes})"),
    "BOOT_FAIL": ("node_failed", "SLURM could not start a node of the job ({job.nodes})"),
    "OUT_OF_MEMORY": ("host_out_of_memory", "the job took more host memory than the {memory} it asked for"),
}
"""Status and reason of a run whose job SLURM ended, by the job's state.

LAUNCH_FAILED and RECONFIG_FAIL are no states. SLURM sets these flags when it requeues a job, and does not print them.
"""
CRASHES = (
    ("RendezvousError", "no_rendezvous"),
    (rf"\[Errno ({errno.ENOSPC}|{errno.EDQUOT})\]|No space left on device|{os.strerror(errno.EDQUOT)}", "disk_full"),
    # Frameworks name the error of a device OutOfMemoryError.
    ("(?<!OutOf)MemoryError|CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED", "host_out_of_memory"),
)
"""Statuses of a run that ended with an error, by a pattern of its text."""
FIRST = (
    re.compile(r"^Process name: (?P<rank>\d+)\nExit code: (?P<status>\d+)", re.MULTILINE),
    re.compile(r"^srun: error: \S+: tasks? (?P<rank>\d+)\S*: (?P<how>(?!Terminated)[^\n(]+)", re.MULTILINE),
)
"""How horovodrun and measure.launch.spawn, and how srun, name a process that has failed."""
LABEL = re.compile(r"^\[(?P<rank>\d+)\]<stderr>:")
"""Prefix that horovodrun puts before each line of a process."""
ABORTED = re.compile(r"(?:^\s*what\(\):|uncaught exception:|^Fatal Python error:)\s*(?P<words>.*\S)")
"""Message of a process that libraries such as gloo and NCCL abort without a traceback of Python."""


@dataclass(frozen=True)
class Failure:
    """The process that failed first, as its launcher reports it. how: for example `killed by SIGKILL`."""

    rank: int
    how: str


def explain_job(job: Job | None) -> dict:
    """Return status and reason of a run, from its job; empty for a job that SLURM does not know or did not end.

    With OverMemoryKill, the state of a job that took too much memory is FAILED, and only its log says why.
    """
    if job and job.state == "FAILED" and not job.failed_in_grace:
        words = next(filter(None, map(find_out_of_memory, find_job_logs(f"{job.id}.log"))), "")
        return {"status": "host_out_of_memory", "reason": words} if words else {}
    state = "PREEMPTED" if job and job.failed_in_grace else job and job.state
    if job is None or state not in STATES:
        return {}
    status, reason = STATES[state]
    return {"status": status, "reason": f"{reason.format(job=job, memory=job.memory or 'memory')} (job {job.id})"}


def ask_for_end(job_id: str) -> dict:
    """Return status and reason of a run, from its job; empty also if SLURM does not answer."""
    with suppress(SlurmError):
        return explain_job(look_up(job_id))
    return {}


def name_crash(reason: str) -> dict:
    """Return the status of a run that ended with an error, and the error as the reason."""
    status = next((status for pattern, status in CRASHES if re.search(pattern, reason)), "crashed")
    return {"status": status, "reason": reason}


def explain_crash(attempt: AttemptFolder, record: dict) -> dict:
    """Return status and reason of an attempt whose launcher has recorded a crash; empty for any other record."""
    if record["status"] != "crashed":
        return {}
    if "exit_status" in record:
        return read_crash(attempt, record["exit_status"])
    return name_crash(record["reason"])


def read_crash(attempt: AttemptFolder, exit_status: int) -> dict:
    """Return status and reason: the last line of the traceback that was written first, else what aborted a process.

    Processes that lose their connection to a failed one fail later, with errors about that. A process that a library
    aborts has no traceback. If there is no message at all, the reason is the exit status.
    """
    if words := find_out_of_memory(attempt.said):
        return {"status": "host_out_of_memory", "reason": words}
    said = attempt.said.read_text(encoding="utf-8", errors="replace") if attempt.said.exists() else ""
    written = [path for path in attempt.path.glob("error.rank*.txt") if path.stat().st_size]
    first = read_first_failure(said)
    if first and attempt.error_of(first.rank) not in written:
        return name_crash(explain_failure(first, said))
    for path in sorted(written, key=lambda path: path.stat().st_mtime_ns):
        return name_crash(path.read_text().strip().splitlines()[-1])
    if words := explain_abort(said):
        return name_crash(words)
    if full := explain_full_disk(attempt):
        return full
    if exit_status < 0:
        return name_crash(f"killed by {signal.Signals(-exit_status).name}")
    return name_crash(f"exit status {exit_status}")


def explain_crashes(path: Path) -> str:
    """Return which of the gate's tasks crashed and why, one a line; empty if none did.

    path: file with the crashes, which gate.observe writes.
    """
    crashes = json.loads(path.read_text())["crashes"] if path.exists() else []
    ends = [read_crash(AttemptFolder(crash["folder"]), crash["exit_status"])["reason"] for crash in crashes]
    lines = [f"  {crash['task']} crashed: {reason}" for crash, reason in zip(crashes, ends, strict=True)]
    return "\n".join(["the parity gate's task was not done:", *lines]) if lines else ""


def explain_full_disk(attempt: AttemptFolder) -> dict:
    """Return status and reason of an attempt whose disk is full; empty if there is room."""
    if os.statvfs(attempt.path).f_bavail:
        return {}
    return name_crash(f"No space left on device: the disk of {attempt.path} is full")


def read_first_failure(said: str) -> Failure | None:
    """Return the process that failed first; None if no launcher names one, or if the process got SIGTERM."""
    for pattern in FIRST:
        if not (found := pattern.search(said)):
            continue
        known = found.groupdict()
        how = known.get("how") or _name_status(int(known["status"]))
        return None if how == f"killed by {signal.SIGTERM.name}" else Failure(int(known["rank"]), how.strip())
    return None


def _name_status(status: int) -> str:
    return f"killed by {signal.Signals(status - 128).name}" if status > 128 else f"exit status {status}"


def find_abort_messages(said: str) -> dict[int | None, str]:
    """Return the message with which a library aborted a process, by the process's rank; None for an unknown rank."""
    spoken: dict[int | None, str] = {}
    for line in said.splitlines():
        label = LABEL.match(line)
        if words := ABORTED.search(line[label.end() :] if label else line):
            spoken.setdefault(int(label["rank"]) if label else None, words["words"])
    return spoken


def explain_abort(said: str) -> str:
    """Return the first message with which a library aborted a process; empty if there is none."""
    return next(iter(find_abort_messages(said).values()), "")


def explain_failure(first: Failure, said: str) -> str:
    """Return how the first process failed, with its last words or those of a process that lost its connection to it."""
    text, spoken = f"process {first.rank} failed first, {first.how}", find_abort_messages(said)
    if own := spoken.get(first.rank) or spoken.get(None):
        return f"{text}: {own}"
    return "; ".join([text, *(f"then process {rank}: {words}" for rank, words in list(spoken.items())[:1])])
