"""
Patch: a Ctrl-C always ends Snakemake.

Python raises KeyboardInterrupt wherever the main thread happens to be. If that is inside the handler that writes
Snakemake's log, the handler catches the exception and Snakemake goes on. If it is inside a function of a rule,
Snakemake reports it as an error of this rule. With the patch, the signal is only noted, and the scheduler raises
KeyboardInterrupt when it next waits for its jobs. A second Ctrl-C raises KeyboardInterrupt at once, in case the
scheduler does not get there.

Upstream: no issue is known; docs/upstream.md has the text of a report.
Tested with snakemake 9.27.1. tests/workflow/test_interrupting.py fails if Snakemake alone no longer loses a Ctrl-C.
"""

import signal
import threading
from typing import Any

from howmanygpus.snakemake_patches.patching import check_version, replace

POLL_S = 0.5
"""How often the wait for jobs looks whether Ctrl-C was pressed."""


class Interruptible:
    """The scheduler's semaphore, with a wait that ends if Ctrl-C was pressed before or during it."""

    def __init__(self, news: threading.Semaphore):
        self._news, self._is_pressed = news, False

    def press(self, *_: Any) -> None:
        """Handle SIGINT."""
        if self._is_pressed:
            raise KeyboardInterrupt
        self._is_pressed = True

    def acquire(self) -> None:
        # The handler must not release the semaphore: the interrupted code may hold its lock.
        while not self._is_pressed and not self._news.acquire(timeout=POLL_S):
            pass
        if self._is_pressed:
            raise KeyboardInterrupt

    def release(self) -> None:
        self._news.release()


def _interrupt_between_steps(upstream: Any) -> Any:
    def schedule(scheduler: Any) -> bool:
        if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            return upstream(scheduler)
        scheduler._open_jobs = news = Interruptible(scheduler._open_jobs)
        signal.signal(signal.SIGINT, news.press)
        try:
            return upstream(scheduler)
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    return schedule


def apply() -> None:
    """Patch JobScheduler.schedule, the loop in which Snakemake starts jobs and waits for them."""
    check_version("snakemake")
    from snakemake.scheduling.job_scheduler import JobScheduler

    written_for = "snakemake.scheduling.job_scheduler.JobScheduler.schedule(self)"
    replace(JobScheduler, "schedule", written_for, _interrupt_between_steps)
