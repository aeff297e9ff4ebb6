"""
Commands in sessions of their own, which end by themselves, at a deadline, or with the process that started them.

This module uses only the standard library, because it is also used before anything is installed.
"""

import os
import signal
import subprocess
import time
from contextlib import suppress

STOPPING_S = 30.0
"""Maximum time in seconds for a session to end after Ctrl-C."""
POLL_S = 0.1


def run_until(deadline: float, command: list[str], **options) -> int | None:
    """Run a command; return its exit status as subprocess does, or None if it was stopped at the deadline.

    deadline: by time.monotonic(). options: of Popen. Processes that a killed command leaves behind are stopped too.
    """
    child = subprocess.Popen(command, preexec_fn=begin_session, **options)
    try:
        return child.wait(timeout=max(deadline - time.monotonic(), 1))
    except subprocess.TimeoutExpired:
        return None
    finally:
        if child.returncode is None or child.returncode < 0:
            stop(child)


def begin_session() -> None:
    """Become a session of its own that Ctrl-C can stop; a job in the background of a shell would ignore it."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def stop(child: subprocess.Popen) -> None:
    """Stop a session as Ctrl-C in a terminal does, for the command and its children, and make sure that it ends."""
    deadline = time.monotonic() + STOPPING_S
    # No such process exists once all processes of the session have ended.
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGINT)
        while time.monotonic() < deadline:
            child.poll()
            os.killpg(child.pid, 0)
            time.sleep(POLL_S)
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def explain_end(program: str, status: int) -> str:
    """Return how a program has ended. status: as subprocess gives it."""
    if status < 0:
        return f"{program} was killed by {signal.Signals(-status).name}"
    return f"{program} ended with status {status}"
