"""
The logger plugin of the project, by Snakemake's interface for such plugins.

On a terminal, a live view at the bottom shows what is done and what goes on. Above it, and alone without a terminal,
there is one line for each run that has ended, for each failure with its reason, and for each stage that is complete.
Snakemake's own messages about its jobs are left to its log file. Warnings and messages of the project are printed as
always, and so is everything before the first job and after the last one.

Tested with snakemake 9.26.1 and 9.27.1, and snakemake-interface-logger-plugins 2.1.0.
"""

import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from snakemake.logging import ColorizingTextHandler
from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

from howmanygpus.invocation.interrupting import find_interruption
from howmanygpus.invocation.progress.printing import Printer
from howmanygpus.invocation.progress.tracking import Tracker, list_steps
from howmanygpus.invocation.submitted_jobs import read_seconds
from howmanygpus.study.durations import RecordedJobs
from howmanygpus.study.plan import Plan

HEADERS = (LogEvent.WORKFLOW_STARTED, LogEvent.RUN_INFO, LogEvent.RESOURCES_INFO)
"""Snakemake's messages about the whole call, before its first job."""
ERRORS = (LogEvent.ERROR, LogEvent.JOB_ERROR, LogEvent.GROUP_ERROR)
FAILED_COMMAND = "CalledProcessError in file"
LIBRARY = Path(__file__).resolve().parents[2]


class LogHandler(LogHandlerBase):
    """Prints the progress of one call. `begin` is called before its first job, and `end` after its last one."""

    writes_to_stream, writes_to_file, has_filter, has_formatter, needs_rulegraph = True, False, True, True, False

    def __post_init__(self) -> None:
        self._stream = sys.stdout if self.common_settings.stdout else sys.stderr
        self._plain = ColorizingTextHandler(self.common_settings.nocolor, self._stream)
        self._is_touching: Callable[[], bool] = lambda: False
        self._printer: Printer | None = None
        self._screen: Any = None

    def take_over(self, plain: ColorizingTextHandler, is_touching: Callable[[], bool]) -> None:
        """Take the place of Snakemake's own handler, which goes on to print what is no progress.

        is_touching: whether the call does nothing but touch files; nothing is replaced then.
        """
        self._plain, self._is_touching = plain, is_touching

    def begin(self, plan: Plan, workflow: Any) -> None:
        """Follow the jobs of a call, which begin now. workflow: Snakemake's."""
        try:
            steps = list_steps(workflow.dag.needrun_jobs())
            recorded = RecordedJobs(workflow.dag.jobs, workflow.persistence, read_seconds)
            tracker = Tracker(steps, is_serial=workflow.local_exec, expect=recorded.expect)
            printer = Printer(plan, tracker, self.say, self.common_settings)
            if steps and self._stream.isatty():
                self._start_screen(printer)
            if self._screen is None:
                printer.announce()
        except Exception as error:
            # The jobs must not be lost for want of a view. Snakemake's own messages follow.
            self._stop_screen()
            self.say(f"The progress cannot be shown: {type(error).__name__}: {error}")
        else:
            self._printer = printer

    def _start_screen(self, printer: Printer) -> None:
        # Imported here because only a terminal needs rich.
        from howmanygpus.invocation.progress.view import CLUSTER_POLL_S, POLL_S, Screen, draw, make_console

        def draw_now(width: int, height: int) -> Any:
            followers = printer.look()
            # Events change what is drawn.
            self.acquire()
            try:
                return draw(printer.tracker, followers, width, height)
            finally:
                self.release()

        if console := make_console(self._stream, self.common_settings.nocolor):
            printer.is_live = True
            every_s = POLL_S if printer.tracker.is_serial else CLUSTER_POLL_S
            self._screen = Screen(console, every_s, draw_now, self._lose_screen)
            self._screen.start()

    def _lose_screen(self, why: str) -> None:
        self._screen = None
        self.say(why)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            event = getattr(record, "event", None)
            if self._printer is None:
                if event not in HEADERS or self._is_touching():
                    self._pass_on(record)
            elif not self._printer.take(event, record) and is_shown(event, record):
                self._pass_on(record)
        except BrokenPipeError:
            raise
        except Exception:
            self.handleError(record)

    def _pass_on(self, record: logging.LogRecord) -> None:
        """Print a message as Snakemake's own handler does."""
        if self._screen is None:
            self._plain.handle(record)
        elif self._plain.filter(record) and (text := self._plain.format(record)):
            self._screen.print(self._plain.decorate(record, text))

    def say(self, text: str, style: str = "") -> None:
        """Print a line of our own. style: as rich names it, for a terminal."""
        if self._screen is None:
            print(text, file=self._stream, flush=True)
        else:
            self._screen.print(text, style)

    def end(self) -> None:
        """Print all further messages as Snakemake does, because no job runs any more."""
        printer, self._printer = self._printer, None
        self._stop_screen()
        if printer:
            printer.conclude()

    def _stop_screen(self) -> None:
        screen, self._screen = self._screen, None
        if screen:
            screen.stop()

    def close(self) -> None:
        self._stop_screen()
        super().close()


def is_shown(event: LogEvent | None, record: logging.LogRecord) -> bool:
    """Whether a message that is no progress is printed: errors, warnings, and all messages of the project.

    The command of a failed job is left out, because the event that follows says which job failed and why. After a
    signal, Snakemake says what it waits for.
    """
    if event is None:
        is_own = Path(record.pathname).is_relative_to(LIBRARY)
        return is_own or record.levelno >= logging.WARNING or bool(find_interruption())
    return event in ERRORS and FAILED_COMMAND not in str(record.msg)
