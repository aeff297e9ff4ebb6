"""
Ctrl-C and SIGTERM end Snakemake, whatever it is doing at that moment.

If Ctrl-C arrives while a log message is written, Snakemake loses it: the handler that writes the message catches the
exception, and Snakemake continues. If it arrives inside a function of a rule, Snakemake reports it as an error of this
rule. A second Ctrl-C, pressed while Snakemake cancels its jobs, ends it with a traceback before it has cancelled them.
At SIGTERM, Snakemake's handler takes a lock, and waits for ever if the interrupted code holds it.

Here both signals are only noted. At Ctrl-C, the scheduler raises KeyboardInterrupt when it next waits for its jobs. A
second Ctrl-C raises it at once, in case the scheduler does not get there; once Snakemake is ending, a further one is
answered by one line. At SIGTERM, the scheduler starts no other job. Jobs of a cluster that have not started are
cancelled, because they may never start; Snakemake ends with the jobs that run.

No function of Snakemake is patched: `onstart` replaces the semaphore of its scheduler and its handlers of signals.

Upstream: no issue is known; see docs/upstream.md.
Tested with snakemake 9.26.1 and 9.27.1. tests/workflow/test_interrupting.py fails if Snakemake alone no longer loses a
Ctrl-C.
"""

import functools
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from howmanygpus.invocation import internals

POLL_S = 0.5
"""How often the wait for jobs looks whether a signal has arrived."""
STDERR = 2
ENDING = b"Snakemake is ending already; it waits until its jobs are stopped or cancelled.\n"
INTERRUPTIONS: list[str] = []
"""What has interrupted this call, in order: `Ctrl-C`, `SIGTERM`."""


class Interruptible:
    """The scheduler's semaphore, with a wait that ends if a signal arrived before or during it.

    stop_starting: called once after SIGTERM, when the scheduler next waits.
    """

    def __init__(self, news: threading.Semaphore, stop_starting: Callable[[], None] = lambda: None):
        self._news, self._stop_starting = news, stop_starting
        self._is_pressed = self._is_ending = self._is_terminated = self._has_stopped = False

    def press(self, *_: Any) -> None:
        """Handle SIGINT."""
        if self._is_ending:
            # The interrupted code may be writing to sys.stderr, and the terminal may be gone.
            with suppress(OSError):
                os.write(STDERR, ENDING)
            return
        if self._is_pressed:
            self._is_ending = True
            raise KeyboardInterrupt
        INTERRUPTIONS.append("Ctrl-C")
        self._is_pressed = True

    def terminate(self, *_: Any) -> None:
        """Handle SIGTERM."""
        INTERRUPTIONS.append("SIGTERM")
        self._is_terminated = True

    def acquire(self) -> None:
        # The handlers must not release the semaphore: the interrupted code may hold its lock.
        while not self._is_pressed and not self._must_stop() and not self._news.acquire(timeout=POLL_S):
            pass
        if self._is_pressed:
            self._is_ending = True
            raise KeyboardInterrupt
        if self._must_stop():
            self._has_stopped = True
            self._stop_starting()

    def release(self) -> None:
        self._news.release()

    def _must_stop(self) -> bool:
        return self._is_terminated and not self._has_stopped


def find_interruption() -> str:
    """Return what has interrupted this call; empty if nothing has. Ctrl-C after SIGTERM counts as Ctrl-C."""
    return "Ctrl-C" if "Ctrl-C" in INTERRUPTIONS else "".join(INTERRUPTIONS[:1])


def stop_starting(scheduler: Any) -> None:
    """Let a scheduler start no other job, and end when the running ones have ended."""
    scheduler.exit_gracefully()
    internals.cancel_waiting_jobs(scheduler)


def note_signals(scheduler: Any) -> None:
    """Only note SIGTERM, and SIGINT unless it is ignored, as by a background job of a shell script, until heed_signals.

    Call it in `onstart`, before the scheduler waits for the first time.
    """
    stop = functools.partial(stop_starting, scheduler)
    interruptible = internals.replace_news(scheduler, lambda news: Interruptible(news, stop))
    signal.signal(signal.SIGTERM, interruptible.terminate)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, interruptible.press)


def heed_signals() -> None:
    """Let a Ctrl-C interrupt this process at once, unless one has already. Call it when no job runs any more."""
    if not INTERRUPTIONS and isinstance(getattr(signal.getsignal(signal.SIGINT), "__self__", None), Interruptible):
        signal.signal(signal.SIGINT, signal.default_int_handler)


def end_without_traceback() -> None:
    """Print one line for a Ctrl-C that nothing handles, for example while Snakemake plans."""
    upstream = sys.excepthook

    def say(kind: Any, error: Any, traceback: Any) -> None:
        if issubclass(kind, KeyboardInterrupt):
            print("Interrupted by Ctrl-C.", file=sys.stderr)
        else:
            upstream(kind, error, traceback)

    sys.excepthook = say
