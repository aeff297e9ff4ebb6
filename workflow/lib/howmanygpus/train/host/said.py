"""What the processes of a run and the program that started them said before they ended."""

import io
import os
import re
import signal
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from howmanygpus.surroundings.secrets import make_hiding

FIRST = (
    re.compile(r"^Process name: (?P<rank>\d+)\nExit code: (?P<status>\d+)", re.MULTILINE),
    re.compile(r"^srun: error: \S+: tasks? (?P<rank>\d+)\S*: (?P<how>(?!Terminated)[^\n(]+)", re.MULTILINE),
)
"""How horovodrun and train.start.spawn, and how srun, name a process that has failed."""
LABEL = re.compile(r"^\[(?P<rank>\d+)\]<stderr>:")
"""Prefix that horovodrun puts before each line of a process."""
ABORTED = re.compile(r"(?:^\s*what\(\):|uncaught exception:|^Fatal Python error:)\s*(?P<words>.*\S)")
"""Last words of a process that libraries such as gloo and NCCL abort without a traceback of Python."""


@dataclass(frozen=True)
class Failure:
    """The process that failed first, as its launcher reports it. how: for example `killed by SIGKILL`."""

    rank: int
    how: str


def keep_what_is_said(stream, path: Path) -> threading.Thread:
    """Copy the lines of a stream of bytes to stderr and to a new file, in a thread that ends with the stream.

    Secrets in this process's variables are replaced.

    The writers use the encoding of the locale. The file is UTF-8. On a full disk the lines are lost, but they are still
    read, so that the writers do not block.
    """
    path.unlink(missing_ok=True)

    def pass_on() -> None:
        for line in map(make_hiding(os.environ), io.TextIOWrapper(stream, errors="replace")):
            with suppress(OSError):
                # Python's stderr escapes what it cannot encode.
                sys.stderr.write(line)
            # The encoding of the locale may lack characters, and an error would end the thread.
            with suppress(OSError), open(path, "a", encoding="utf-8", errors="replace") as kept:
                kept.write(line)

    thread = threading.Thread(target=pass_on, name="said", daemon=True)
    thread.start()
    return thread


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


def find_last_words(said: str) -> dict[int | None, str]:
    """Return the message with which a library aborted a process, by the process's rank; None for an unknown rank."""
    spoken: dict[int | None, str] = {}
    for line in said.splitlines():
        label = LABEL.match(line)
        if words := ABORTED.search(line[label.end() :] if label else line):
            spoken.setdefault(int(label["rank"]) if label else None, words["words"])
    return spoken


def explain_abort(said: str) -> str:
    """Return the first message with which a library aborted a process; empty if there is none."""
    return next(iter(find_last_words(said).values()), "")


def explain_failure(first: Failure, said: str) -> str:
    """Return how the first process failed, with its last words or those of a process that lost its connection to it."""
    text, spoken = f"process {first.rank} failed first, {first.how}", find_last_words(said)
    if own := spoken.get(first.rank) or spoken.get(None):
        return f"{text}: {own}"
    return "; ".join([text, *(f"then process {rank}: {words}" for rank, words in list(spoken.items())[:1])])
