"""
Patch: a failed job is shown with its own log and its reason, whatever logger prints it.

If a job fails, loggers print the file of its rule's `log:`. If the job had not started, this is the log of an earlier
call, or there is none: the logger `rich` then prints a traceback of its own for each job. With the patch, the logs of a
job are emptied when the job is handed to its executor.

`rich` also drops the message with which an executor explains a failure. With the patch, separate messages explain a
failure: a full disk, and how the attempt at a run ended. If the disk is full, no other job is started, because each
would fail in the same way. On a full disk, Snakemake prints a traceback for each message
that it cannot write to its own log; the patch leaves these out.

If a job that runs need fails, such as the parity gate, nothing is recorded about these runs when the call ends. With
the patch, each gets an attempt with the status `blocked`, and the last words of that job as the reason.

Upstream: https://github.com/snakemake/snakemake/issues/204 asks for empty logs before submission. For `rich` and the
full disk no issue is known; docs/upstream.md has the text of a report.
Tested with snakemake 9.27.1 and snakemake-logger-plugin-rich 0.5.1.
"""

import json
import logging
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from howmanygpus.call.attempts import find_new_attempt, list_attempts, record_blocked
from howmanygpus.call.disk import FULL, find_full_disks, find_words_of_full_disk, list_folders, read_end
from howmanygpus.call.taking_over import find_older
from howmanygpus.snakemake_patches.interrupting import stop_starting
from howmanygpus.snakemake_patches.patching import check_version, replace

NOT_STARTED = "This job has not started.\n"
"""Content of the log of a job that waits."""
DISK_CHECK_S = 60.0
"""Smallest time between two checks of the disk, in seconds, because many jobs may fail at once."""


def list_logs(job: Any) -> list[Path]:
    """Return the logs of a job; none for a group of jobs."""
    return [] if job.is_group() else [Path(log) for log in job.log]


def has_started(job: Any) -> bool:
    """Whether a job has begun since it was handed to its executor; true for a job without a log."""
    return not any(read_end(log) == NOT_STARTED for log in list_logs(job))


def name_run(job: Any) -> str:
    """Return the path of the run that a job of the rule `train` makes; empty for another job."""
    return str(job.wildcards.run) if not job.is_group() and job.rule.name == "train" else ""


def describe_run(job: Any) -> tuple[dict, dict[str, Path]]:
    """Return the settings of a run and the inputs that complete its record; a user's own program has no inputs."""
    inputs = {name: job.input[name] for name in ("data", "weights", "verdict")}
    return json.loads(job.params.settings), {name: Path(path) for name, path in inputs.items() if path}


def _record_block(job: Any, reason: str) -> str:
    """Record that a run cannot begin. Return why it could not be recorded; empty if it was."""
    try:
        record_blocked(name_run(job), *describe_run(job), reason)
    except Exception as error:
        # Snakemake must continue, because otherwise it would abandon the running jobs.
        return f"{type(error).__name__}: {error}"
    return ""


def find_last_words(logs: Sequence[Path]) -> str:
    """Return the last line of the first log that has one, and otherwise the name of the last log."""
    for log in logs:
        lines = [line.strip() for line in read_end(log).splitlines() if line.strip()]
        if lines and lines != [NOT_STARTED.strip()]:
            return lines[-1]
    return f"see {logs[-1]}"


def renew_logs(logs: Iterable[Path]) -> None:
    """Replace the logs of earlier starts of a job. On a full disk they are only removed."""
    for log in logs:
        log.unlink(missing_ok=True)
        with suppress(OSError):
            log.parent.mkdir(parents=True, exist_ok=True)
            log.write_text(NOT_STARTED)


class Failures:
    """Explains the failed jobs of one call. say: prints a message."""

    def __init__(self, say: Any):
        self._say, self._attempts, self._checked_at = say, dict[str, set[Path]](), -DISK_CHECK_S
        self.is_disk_full = False

    def begin(self, job: Any) -> None:
        """Prepare for the start of a job. A job of a killed call, which goes on, writes to its log already."""
        older = find_older(job)
        if older is None:
            renew_logs(list_logs(job))
        if run := name_run(job):
            ends = f"-job{older.job}" if older else "/"
            self._attempts[run] = {path for path in list_attempts(run) if not path.parent.name.endswith(ends)}

    def explain(self, job: Any) -> None:
        """Say why a job failed, if that is known. Loggers show the content of logs, except for a full disk."""
        for log in list_logs(job):
            if words := find_words_of_full_disk(log):
                self._say(f"{log}: the disk or the quota was full: {words}")
        self._check_disks()
        run = name_run(job)
        if run and (found := find_new_attempt(run, self._attempts.get(run, set()))):
            folder, record = found
            if not any(record["reason"] in read_end(log) for log in list_logs(job)):
                self._say(f"{run}: {record['status']}: {record['reason']}; the attempt is kept in {folder}")

    def block(self, dag: Any, failed: Any) -> None:
        """Record that no run that waits for a finally failed job can begin."""
        for job in failed.jobs if failed.is_group() else [failed]:
            logs = list_logs(job)
            words = f": {find_last_words(logs)}; its log is {logs[-1]}" if logs else ""
            reason = f"the step {job.rule.name}, which the run needs, failed{words}"
            waiting = () if name_run(job) else dag.bfs(dag.depending, job)
            problems = filter(None, [_record_block(found, reason) for found in waiting if name_run(found)])
            for problem in dict.fromkeys(problems):
                self._say(f"What waits for {job.rule.name} could not be recorded: {problem}")

    def _check_disks(self) -> None:
        if time.monotonic() - self._checked_at >= DISK_CHECK_S:
            self._checked_at = time.monotonic()
            messages = find_full_disks(list_folders())
            self.is_disk_full = bool(messages)
            for message in messages:
                self._say(message)


def _begin_jobs(failures: Failures) -> Any:
    def begin(upstream: Any) -> Any:
        def run(scheduler: Any, jobs: Any, executor: Any = None) -> None:
            for job in () if scheduler.touch else jobs:
                failures.begin(job)
            upstream(scheduler, jobs, executor)

        return run

    return begin


def _explain_errors(failures: Failures) -> Any:
    def explain(upstream: Any) -> Any:
        def handle_error(scheduler: Any, job: Any, postprocess_job: bool = True) -> None:
            was_full = failures.is_disk_full
            failures.explain(job)
            if failures.is_disk_full and not was_full:
                stop_starting(scheduler)
            upstream(scheduler, job, postprocess_job)
            if job in scheduler.failed:
                failures.block(scheduler.workflow.dag, job)

        return handle_error

    return explain


def write_quietly(handlers: Iterable[logging.Handler]) -> None:
    """Keep handlers that write to a file from printing a traceback for a message that a full disk rejects."""

    def make(handle_error: Any) -> Any:
        def handle(record: logging.LogRecord) -> None:
            error = sys.exc_info()[1]
            if not isinstance(error, OSError) or error.errno not in FULL:
                handle_error(record)

        return handle

    for handler in handlers:
        if isinstance(handler, logging.FileHandler):
            handler.handleError = make(handler.handleError)  # type: ignore[method-assign]


def apply() -> None:
    """Patch JobScheduler.run, which hands jobs to an executor, and JobScheduler._handle_error."""
    check_version("snakemake")
    from snakemake.logging import logger
    from snakemake.scheduling.job_scheduler import JobScheduler

    write_quietly(logger.handlers)
    failures, place = Failures(logger.error), "snakemake.scheduling.job_scheduler.JobScheduler"
    replace(JobScheduler, "run", f"{place}.run(self, jobs, executor)", _begin_jobs(failures))
    written_for = f"{place}._handle_error(self, job, postprocess_job)"
    replace(JobScheduler, "_handle_error", written_for, _explain_errors(failures))
