"""
One measured job at a time has the machine. A job that must wait says for whom, and each notes how long it had it.
"""

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import psutil

from howmanygpus.base.messages import print_to_call
from howmanygpus.files import write_json_atomic

HELD = "HOWMANYGPUS_HELD"
"""The environment variable with the file in which a job notes when it has the machine: it is billed for this time."""
LOOK_S = 60.0
"""Time between two looks whether the holder goes on, in seconds."""


@contextmanager
def take_turn(lock: Path, purpose: str) -> Iterator[None]:
    """Hold the machine by its lock. If another job has it, say at once which one, since when, for what, and who waits.

    A holder that is stopped, as by Ctrl-Z, keeps the machine from all others, and they say how it goes on. purpose:
    what the machine is needed for. The holder describes itself in a file beside the lock, because whoever tries the
    lock truncates the lock's own file.
    """
    from filelock import FileLock, Timeout

    turn, holder = FileLock(lock), lock.with_suffix(".holder.json")
    try:
        turn.acquire(timeout=0)
    except Timeout:
        with _wait_among_others(lock.with_suffix(".waiting")) as others:
            say(f"{purpose}: waits for the machine, which {describe_holder(holder)}{others}")
            told = ""
            while not turn.is_locked:
                if (stopped := describe_stop(holder)) and stopped != told:
                    say(f"{purpose}: waits for {stopped}")
                told = stopped
                with suppress(Timeout):
                    turn.acquire(timeout=LOOK_S)
        print(f"{purpose}: has the machine now", file=sys.stderr, flush=True)
    try:
        since = datetime.now(UTC).isoformat(timespec="seconds")
        about = {"purpose": purpose, "pid": os.getpid(), "folder": str(Path.cwd()), "since": since}
        write_json_atomic(holder, about)
        with _note_time():
            yield
    finally:
        holder.unlink(missing_ok=True)
        turn.release()


def say(message: str) -> None:
    """Print a message to the log of this job and to the screen of its call."""
    print(message, file=sys.stderr, flush=True)
    print_to_call(message)


def describe_holder(path: Path) -> str:
    """Return who has the machine. Nobody says so between two holders, and if the holder is an older version."""
    with suppress(OSError, ValueError, KeyError):
        told = json.loads(path.read_text())
        return f"process {told['pid']} in {told['folder']} has had since {told['since']}, for {told['purpose']}"
    return "another job of this user has"


def describe_stop(path: Path) -> str:
    """Return that the holder is stopped, with the remedy; empty if it goes on or is not known."""
    with suppress(OSError, ValueError, KeyError, psutil.Error):
        told = json.loads(path.read_text())
        if psutil.Process(told["pid"]).status() == psutil.STATUS_STOPPED:
            return (
                f"process {told['pid']} in {told['folder']}, which is stopped, as by Ctrl-Z, and keeps the machine: "
                f"`fg` in its shell lets it go on, or `kill -CONT {told['pid']}`"
            )
    return ""


@contextmanager
def _wait_among_others(folder: Path) -> Iterator[str]:
    """Be one of those who wait, each of whom has a file in the folder, and yield how many others there are.

    A process that was killed has left its file, and does not count.
    """
    folder.mkdir(exist_ok=True)
    own = folder / str(os.getpid())
    own.touch()
    try:
        others = sum(psutil.pid_exists(int(each.name)) for each in folder.iterdir() if each != own)
        yield f"; {others} other job{'s wait' if others > 1 else ' waits'} for it too" if others else ""
    finally:
        own.unlink(missing_ok=True)


@contextmanager
def _note_time() -> Iterator[None]:
    """Note when this job takes the machine, and for how long it has had it."""
    path, started = os.environ.get(HELD), time.monotonic()
    _append(path, {"since": time.time()})
    try:
        yield
    finally:
        _append(path, {"held_s": time.monotonic() - started})


def _append(path: str | None, line: dict) -> None:
    if path:
        with open(path, "a") as file:
            file.write(json.dumps(line) + "\n")


def read_held(path: Path) -> dict:
    """Return for how long a job has had the machine (`held_s`), and since when it has it now (`holding_since`).

    path: the file that HELD names. `holding_since` is in seconds since 1970, or None.
    """
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    held_s = sum(line.get("held_s", 0.0) for line in lines)
    return {"held_s": held_s, "holding_since": lines[-1].get("since") if lines else None}
