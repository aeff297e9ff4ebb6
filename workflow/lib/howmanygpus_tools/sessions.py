"""
Commands in sessions of their own, which end by themselves, at a deadline, or with the process that started them.

This module uses only the standard library, because it is also used before anything is installed.
"""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

STOPPING_S = 30.0
"""Maximum time in seconds for a session to end after Ctrl-C."""
POLL_S = 0.1
MIN_TIME_S = 1.0
"""Every command gets this time in seconds, also after its deadline."""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run_until(deadline: float, command: list[str], **options) -> int | None:
    """Run a command; return its exit status as subprocess does, or None if it was stopped at the deadline.

    deadline: by time.monotonic(). options: of Popen. Processes that a killed command leaves behind are stopped too.
    Call it in the main thread. Raises the KeyboardInterrupt of a signal's handler once the command has been stopped.
    """
    deadline = max(deadline, time.monotonic() + MIN_TIME_S)
    with defer_interrupts() as interrupts:
        child = subprocess.Popen(command, preexec_fn=begin_session, **options)
        while child.poll() is None and not interrupts and time.monotonic() < deadline:
            time.sleep(POLL_S)
        status = child.returncode
        if status is None or status < 0:
            stop(child)
    return status


@contextmanager
def defer_interrupts() -> Iterator[list[KeyboardInterrupt]]:
    """Call the handlers of signals as they arrive, but raise their KeyboardInterrupt at the end. Yields those so far.

    Raised inside subprocess, it would lose a child that has just started, or leave a lock held for which the next call
    waits for ever.
    """
    interrupts: list[KeyboardInterrupt] = []
    is_inside = False

    def handle(number: int, frame) -> None:
        try:
            handlers[signal.Signals(number)](number, frame)
        except KeyboardInterrupt as error:
            if not is_inside:
                raise
            interrupts.append(error)

    handlers = {number: handler for number in SIGNALS if callable(handler := signal.getsignal(number))}
    for number in handlers:
        signal.signal(number, handle)
    is_inside = True
    try:
        yield interrupts
    finally:
        is_inside = False
        for number, handler in handlers.items():
            # A handler may have replaced itself, for example to ignore further signals.
            if signal.getsignal(number) is handle:
                signal.signal(number, handler)
        if interrupts:
            raise interrupts[0]


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
