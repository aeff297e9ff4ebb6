"""
Why an attempt ended without an outcome, and the record of it.

The launcher imports this module by its name once a run has ended, so that no run is repeated if it is changed.
"""

import errno
import os
import re
import signal
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from howmanygpus.files import write_json_atomic
from howmanygpus.surroundings.secrets import hide_everywhere, make_hiding
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


FIRST = (
    re.compile(r"^Process name: (?P<rank>\d+)\nExit code: (?P<status>\d+)", re.MULTILINE),
    re.compile(r"^srun: error: \S+: tasks? (?P<rank>\d+)\S*: (?P<how>(?!Terminated)[^\n(]+)", re.MULTILINE),
)
"""How horovodrun and train.start.spawn, and how srun, name a process that has failed."""
LABEL = re.compile(r"^\[(?P<rank>\d+)\]<stderr>:")
"""Prefix that horovodrun puts before each line of a process."""
ABORTED = re.compile(r"(?:^\s*what\(\):|uncaught exception:|^Fatal Python error:)\s*(?P<words>.*\S)")
"""Message of a process that libraries such as gloo and NCCL abort without a traceback of Python."""


@dataclass(frozen=True)
class Failure:
    """The process that failed first, as its launcher reports it. how: for example `killed by SIGKILL`."""

    rank: int
    how: str


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

    What a program has written of its user's secrets is replaced, and what its command has of them in addresses.

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
    if (shown := hide_everywhere(record)) != record:
        record = shown
        for path in attempt.path.rglob(attempt.spec.name):
            with suppress(OSError):
                write_json_atomic(path, record["spec"])
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


def find_first(said: str) -> Failure | None:
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
