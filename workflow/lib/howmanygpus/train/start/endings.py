"""Find out how an attempt without an outcome ended, and write that down."""

import errno
import os
import re
import signal

from howmanygpus.files import write_json_atomic
from howmanygpus.train.records import AttemptFolder

OUT_OF_HOST_MEMORY = re.compile("exceeded memory limit|oom-kill|Out Of Memory", re.IGNORECASE)
"""Words of slurmstepd after it, or the kernel on its behalf, has killed processes that took too much memory."""
CRASHES = (
    ("RendezvousError", "no_rendezvous"),
    (f"[Errno {errno.ENOSPC}]", "disk_full"),
    ("No space left on device", "disk_full"),
    ("MemoryError", "host_out_of_memory"),
)
"""Statuses of a run that ended with an error, by part of the error's text."""


def name_crash(reason: str) -> dict:
    """Return the status of a run that ended with an error, and the error as the reason."""
    return {"status": next((status for part, status in CRASHES if part in reason), "crashed"), "reason": reason}


def find_crash(attempt: AttemptFolder, exit_status: int) -> dict:
    """Return status and reason of an attempt: the last line of its first traceback, else its exit status.

    The first traceback counts, because the other processes fail after it and report the connection that they lost.
    """
    if attempt.said.exists():
        for line in attempt.said.read_text(errors="replace").splitlines():
            if OUT_OF_HOST_MEMORY.search(line):
                return {"status": "host_out_of_memory", "reason": line.strip()}
    written = [path for path in attempt.path.glob("error.rank*.txt") if path.stat().st_size]
    for path in sorted(written, key=lambda path: path.stat().st_mtime_ns):
        return name_crash(path.read_text().strip().splitlines()[-1])
    if not os.statvfs(attempt.path).f_bavail:
        return name_crash(f"No space left on device: the disk of {attempt.path} is full")
    if exit_status < 0:
        return name_crash(f"killed by {signal.Signals(-exit_status).name}")
    return name_crash(f"exit status {exit_status}")


def write_last_words(attempt: AttemptFolder, record: dict) -> None:
    """Write how the attempt ended. On a full disk, delete its large files first: the record is worth more."""
    try:
        write_json_atomic(attempt.record, record)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        for leftover in (attempt.predictions, attempt.telemetry, *attempt.path.glob(".*"), *attempt.path.glob("*.npz")):
            leftover.unlink(missing_ok=True)
        write_json_atomic(attempt.record, record)
