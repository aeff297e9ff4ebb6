"""Why an attempt ended without an outcome, or with one that is no measurement, and the record of it."""

import errno
import os
import re
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

from howmanygpus.files import write_json_atomic
from howmanygpus.surroundings.secrets import make_hiding
from howmanygpus.train.host.processes import describe_suspension
from howmanygpus.train.host.said import explain_abort, explain_failure, find_first
from howmanygpus.train.host.telemetry import find_gap
from howmanygpus.train.records import AttemptFolder
from howmanygpus.train.schema import RecordError, check_record
from howmanygpus.train.start.settling import OWNER, REPLACED

OUT_OF_HOST_MEMORY = re.compile("^s(?:run|lurm).*(?:exceeded memory limit|oom-kill|Out Of Memory)", re.IGNORECASE)
"""What slurmstepd prints when it, or the kernel for it, has killed processes that took too much memory."""
CRASHES = (
    ("RendezvousError", "no_rendezvous"),
    (rf"\[Errno {errno.ENOSPC}\]|No space left on device", "disk_full"),
    # Frameworks name the error of a device OutOfMemoryError.
    ("(?<!OutOf)MemoryError|CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED", "host_out_of_memory"),
)
"""Statuses of a run that ended with an error, by a pattern of its text."""
LARGE = (".csv", ".npz", ".safetensors")
"""Suffixes of files that grow with the length of a run or the size of a network."""
KEPT = ("spec", "status", "reason", "pid", "started_at", "finished_at", "parity")
"""Keys of the record of every attempt that has ended."""


def name_crash(reason: str) -> dict:
    """Return the status of a run that ended with an error, and the error as the reason."""
    status = next((status for pattern, status in CRASHES if re.search(pattern, reason)), "crashed")
    return {"status": status, "reason": reason}


def find_crash(attempt: AttemptFolder, exit_status: int) -> dict:
    """Return status and reason: the last line of the traceback that was written first, else what aborted a process.

    Processes that lose their connection to a failed one fail later, with errors about that. A process that a library
    aborts has no traceback. If there is no message at all, the reason is the exit status.
    """
    said = attempt.said.read_text(encoding="utf-8", errors="replace") if attempt.said.exists() else ""
    for line in said.splitlines():
        if OUT_OF_HOST_MEMORY.search(line):
            return {"status": "host_out_of_memory", "reason": line.strip()}
    written = [path for path in attempt.path.glob("error.rank*.txt") if path.stat().st_size]
    first = find_first(said)
    if first and attempt.error_of(first.rank) not in written:
        return name_crash(explain_failure(first, said))
    for path in sorted(written, key=lambda path: path.stat().st_mtime_ns):
        return name_crash(path.read_text().strip().splitlines()[-1])
    if words := explain_abort(said):
        return name_crash(words)
    if not os.statvfs(attempt.path).f_bavail:
        return name_crash(f"No space left on device: the disk of {attempt.path} is full")
    if exit_status < 0:
        return name_crash(f"killed by {signal.Signals(-exit_status).name}")
    return name_crash(f"exit status {exit_status}")


def write_last_words(attempt: AttemptFolder, record: dict) -> None:
    """Write how the attempt ended, on a full disk too: the record is worth more than the attempt's other files.

    What a program has written of its user's secrets is replaced.

    A record that violates its schema is an internal error. Then only the keys that every record has are written, with
    the violation as the reason.
    """
    try:
        check_record(attempt.record, record)
    except RecordError as error:
        reason = f"{error}; the attempt had ended with {record['status']}: {record['reason']}"
        record = {key: record[key] for key in KEPT} | {"status": "crashed", "reason": reason}
    reports = attempt.path / "report.jsonl"
    with suppress(OSError):  # most attempts have no such file
        reports.write_text(make_hiding(os.environ)(reports.read_text(errors="replace")))
    leftovers = list_leftovers(attempt)
    while True:
        try:
            return write_json_atomic(attempt.record, record)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT) or not leftovers:
                raise
        give_up(leftovers.pop(0))


def list_leftovers(attempt: AttemptFolder) -> list[Path]:
    """Return the files that are removed to make room for the record: samples and arrays first, events last.

    The files with the attempt's owner, its specification, and the attempt that replaced it stay.
    """
    stays = [attempt.record, attempt.spec, attempt.placement, attempt.events]
    stays += [attempt.path / OWNER, attempt.path / REPLACED]
    files = [path for path in attempt.path.rglob("*") if path.is_file() and path not in stays]
    events = [attempt.events] if attempt.events.exists() else []
    return sorted(files, key=lambda path: not (path.suffix in LARGE or path.name.startswith("."))) + events


def give_up(path: Path) -> None:
    """Remove a file. It is emptied first, because a process that still has it open would keep its space."""
    with suppress(OSError):
        os.truncate(path, 0)
    path.unlink(missing_ok=True)


def doubt_frozen(outcome: dict[str, Any], attempt: AttemptFolder, started_at: float) -> dict[str, Any]:
    """Return the outcome of an attempt: no measurement if everything on a node was frozen while it trained.

    started_at: of its processes, in seconds since 1970.
    """
    frozen_s = find_gap(attempt.path, started_at + (outcome.get("init_s") or 0.0))
    if not frozen_s or outcome["status"] != "completed" or "measured_s" not in outcome:
        return outcome
    return outcome | describe_suspension(f"nothing on one of its nodes went on for {frozen_s:.3g} s")
