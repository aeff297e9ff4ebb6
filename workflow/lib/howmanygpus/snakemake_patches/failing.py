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
the patch, each gets an attempt with the status `blocked`, and the last words of that job as the reason. Jobs of the
gate and searches on which only such runs wait are not started, as they would take minutes in vain.

Snakemake's last message does not say what failed. With the patch, the first failure is known when the call ends.

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
LONG_STEPS = ("compute_reference", "compute_noise", "compute_own_reference", "observe_parity", "search_batch_size")
"""Rules whose jobs are not started if no run that waits for them can begin."""
_FIRST_CAUSE: list[str] = []
"""What failed for good in this call, in the order of time."""
MOST_LINES = 8
"""Lines of a message that are shown when the call ends. The last ones have the remedy."""
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


def find_last_message(logs: Sequence[Path]) -> str:
    """Return the last message of the first log that has one: its last line, and the list before it with its heading."""
    for log in logs:
        lines = [line.rstrip() for line in read_end(log).splitlines() if line.strip()]
        if not lines or lines == [NOT_STARTED.strip()]:
            continue
        first = len(lines) - 1
        while first > 0 and lines[first - 1].startswith("  "):
            first -= 1
        is_list = 0 < first < len(lines) - 1 and not lines[first - 1].startswith("Traceback")
        return "\n".join(lines[first - 1 :][-MOST_LINES:] if is_list else lines[-1:])
    return f"see {logs[-1]}" if logs else "it has no log"


def renew_logs(logs: Iterable[Path]) -> None:
    """Replace the logs of earlier starts of a job. On a full disk they are only removed."""
    for log in logs:
        log.unlink(missing_ok=True)
        with suppress(OSError):
            log.parent.mkdir(parents=True, exist_ok=True)
            log.write_text(NOT_STARTED)


def describe_attempt(job: Any, folder: Path, record: dict) -> str:
    return f"{name_run(job)}: {record['status']}: {record['reason']}; the attempt is kept in {folder}"


def find_first_cause() -> str:
    """Return the step that failed first in this call for good, and why; empty if none did."""
    return _FIRST_CAUSE[0] if _FIRST_CAUSE else ""


class Failures:
    """Explains the failed jobs of one call. say: prints a message."""

    def __init__(self, say: Any):
        self._say, self._attempts, self._checked_at = say, dict[str, set[Path]](), -DISK_CHECK_S
        self._blocked: set[str] = set()
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
        found = self._find_attempt(job)
        if found and not any(found[1]["reason"] in read_end(log) for log in list_logs(job)):
            self._say(describe_attempt(job, *found))

    def _find_attempt(self, job: Any) -> tuple[Path, dict] | None:
        """Return folder and record of the last attempt at a run in this call; None if there is none."""
        run = name_run(job)
        return find_new_attempt(run, self._attempts.get(run, set())) if run else None

    def block(self, dag: Any, failed: Any) -> None:
        """Record that no run that waits for a finally failed job can begin, and start nothing that only these need."""
        for job in failed.jobs if failed.is_group() else [failed]:
            logs = list_logs(job)
            words = f": {find_last_words(logs)}; its log is {logs[-1]}" if logs else ""
            found = self._find_attempt(job)
            said = f"{job.rule.name} ({', '.join(map(str, logs))}): {find_last_message(logs)}"
            _FIRST_CAUSE.append(describe_attempt(job, *found) if found else said)
            reason = f"the step {job.rule.name}, which the run needs, failed{words}"
            waiting = () if name_run(job) else dag.bfs(dag.depending, job)
            blocked = [found for found in waiting if name_run(found)]
            self._blocked |= set(map(name_run, blocked))
            problems = filter(None, [_record_block(found, reason) for found in blocked])
            for problem in dict.fromkeys(problems):
                self._say(f"What waits for {job.rule.name} could not be recorded: {problem}")
            if blocked:
                self._leave_useless_out(dag)

    def _leave_useless_out(self, dag: Any) -> None:
        """Keep steps from starting that take long and on which only runs wait that cannot begin."""
        for job in dag.needrun_jobs():
            if job.rule.name in LONG_STEPS and not dag.finished(job):
                waiting = {name_run(found) for found in dag.bfs(dag.depending, job) if dag.needrun(found)} - {""}
                if waiting and waiting <= self._blocked:
                    dag._ready_jobs.discard(job)
                    dag._n_until_ready[job] += 1

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
