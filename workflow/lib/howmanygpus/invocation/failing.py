"""
Shows a failed job with its own log and its reason, whatever logger prints it.

If a job fails, loggers print the file of its rule's `log:`. If the job had not started, this is the log of an earlier
call, or there is none: the logger `rich` then prints a traceback of its own for each job. Here the logs of a job are
emptied when it is handed to its executor.

`rich` also drops the message with which an executor explains a failure. Separate messages explain a failure: a full
disk, and how the attempt at a run ended. If the disk is full, no other job is started, because each would fail in the
same way. On a full disk, Snakemake prints a traceback for each message that it cannot write to its own log; these are
left out.

If a job that runs need fails, such as the parity gate, nothing is recorded about these runs when the call ends. Here
each gets an attempt with the status `blocked`, and the last words of that job as the reason. Jobs of the gate and
searches on which only such runs wait are not started, as they would take minutes in vain.

Snakemake's last message does not say what failed. Here the first failure is known when the call ends. The event of a
failed job gets the same words, its `cause`, for the project's own logger, which shows no log of a run.

All of this follows from Snakemake's log events: a filter of its logger sees JOB_STARTED before the jobs are handed
over, and JOB_ERROR before a logger prints it. A step that ended well but lacks an output has no such event; it is found
when the call ends.

Upstream: https://github.com/snakemake/snakemake/issues/204 asks for empty logs before submission. For `rich` and the
full disk no issue is known; see docs/upstream.md.
"""

import json
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from snakemake_interface_logger_plugins.common import LogEvent

from howmanygpus.files import atomic_path
from howmanygpus.invocation.attempts import find_new_attempt, list_attempts, record_blocked
from howmanygpus.invocation.disk import FULL, find_disk_full_message, list_folders, list_full_disks, read_end
from howmanygpus.invocation.internals import keep_from_starting
from howmanygpus.invocation.interrupting import find_interruption, stop_starting
from howmanygpus.invocation.modules import find_own_name
from howmanygpus.invocation.submitted_jobs import find_older

NOT_STARTED = "This job has not started.\n"
"""Content of the log of a job that waits."""
LONG_STEPS = ("compute_reference", "compute_noise", "compute_own_reference", "observe_parity", "search_batch_size")
"""Rules whose jobs are not started if no run that waits for them can begin."""
MAX_LOG_LINES = 8
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
    return str(job.wildcards.run) if not job.is_group() and find_own_name(job.rule) == "train" else ""


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


def read_last_line(logs: Sequence[Path]) -> str:
    """Return the last line of the first log that has one, and otherwise the name of the last log."""
    for log in logs:
        lines = [line.strip() for line in read_end(log).splitlines() if line.strip()]
        if lines and lines != [NOT_STARTED.strip()]:
            return lines[-1]
    return f"see {logs[-1]}"


def read_last_message(logs: Sequence[Path]) -> str:
    """Return the last message of the first log that has one: its last line, and the list before it with its heading."""
    for log in logs:
        lines = [line.rstrip() for line in read_end(log).splitlines() if line.strip()]
        if not lines or lines == [NOT_STARTED.strip()]:
            continue
        first = len(lines) - 1
        while first > 0 and lines[first - 1].startswith("  "):
            first -= 1
        is_list = 0 < first < len(lines) - 1 and not lines[first - 1].startswith("Traceback")
        return "\n".join(lines[first - 1 :][-MAX_LOG_LINES:] if is_list else lines[-1:])
    return f"see {logs[-1]}" if logs else "it has no log"


def renew_logs(logs: Iterable[Path]) -> None:
    """Replace the logs of earlier starts of a job. On a full disk they are only removed.

    A logger may be reading the log of a job that is tried again, so that the file is never missing.
    """
    for log in logs:
        try:
            log.parent.mkdir(parents=True, exist_ok=True)
            with atomic_path(log) as partial:
                partial.write_text(NOT_STARTED)
        except OSError:
            log.unlink(missing_ok=True)


def describe_attempt(job: Any, folder: Path, record: dict) -> str:
    return f"{name_run(job)}: {record['status']}: {record['reason']}; the attempt is kept in {folder}"


class Failures(logging.Filter):
    """Explains the failed jobs of one call, as a filter that lets every message of Snakemake's logger pass.

    workflow: Snakemake's. say: prints a message. find_full_disks: returns a message for each folder whose disk is full.
    causes: what failed for good in this call, in the order of time.
    """

    def __init__(
        self,
        workflow: Any,
        say: Callable[[str], None],
        find_full_disks: Callable[[list[Path]], list[str]] = list_full_disks,
    ):
        super().__init__()
        self._find_full_disks = find_full_disks
        self._workflow, self._say, self._attempts = workflow, say, dict[str, set[Path]]()
        self._checked_at, self._is_disk_full = -DISK_CHECK_S, False
        self._blocked: set[str] = set()
        self._ended: set[Any] = set()
        self.causes: list[str] = []
        # Executors report failed jobs from several threads.
        self._lock = threading.Lock()

    @cached_property
    def _jobs(self) -> dict[int, Any]:
        return {job.jobid: job for job in self._workflow.dag.needrun_jobs(exclude_finished=False)}

    def filter(self, record: logging.LogRecord) -> bool:
        event = getattr(record, "event", None)
        if event == LogEvent.JOB_STARTED and not self._workflow.touch:
            for job_id in getattr(record, "jobs", ()):
                if job := self._jobs.get(job_id):
                    self.begin(job)
        elif event == LogEvent.JOB_ERROR and (job := self._jobs.get(getattr(record, "jobid", -1))):
            try:
                with self._lock:
                    is_final = job.attempt > job.restart_times
                    self.end(job, is_final)
                    is_over = is_final or not self._starts_others()
                    told = {"cause": self._name_cause(job), "is_final": is_over, "blocked": set(self._blocked)}
                    vars(record).update(told)
            except Exception as error:
                # The executor must go on, or Snakemake would wait for the job for ever.
                self._say(f"The failure of {job.rule.name} could not be explained: {type(error).__name__}: {error}")
        return True

    def _starts_others(self) -> bool:
        """Whether Snakemake still starts jobs, also ones that failed before."""
        scheduler = self._workflow.scheduler
        has_stopped = scheduler.failed and not self._workflow.execution_settings.keep_going
        return not (has_stopped or find_interruption() or getattr(scheduler, "_user_kill", None))

    def end_call(self) -> None:
        """Explain the failed jobs about which there was no event. Call it when no job runs any more."""
        for job in self._workflow.scheduler.failed - self._ended:
            self.end(job, is_final=True)

    def end(self, job: Any, is_final: bool) -> None:
        """Explain why a job failed, and record what it blocks unless it is tried again."""
        was_full = self._is_disk_full
        self.explain(job)
        if self._is_disk_full and not was_full:
            stop_starting(self._workflow.scheduler)
        if is_final:
            self._ended.add(job)
            self.block(job)

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
            if words := find_disk_full_message(log):
                self._say(f"{log}: the disk or the quota was full: {words}")
        self._check_disks()
        found = self._find_attempt(job)
        if found and not any(found[1]["reason"] in read_end(log) for log in list_logs(job)):
            self._say(describe_attempt(job, *found))

    def _find_attempt(self, job: Any) -> tuple[Path, dict] | None:
        """Return folder and record of the last attempt at a run in this call; None if there is none."""
        run = name_run(job)
        return find_new_attempt(run, self._attempts.get(run, set())) if run else None

    def _name_cause(self, job: Any) -> str:
        """Return what failed and why: how the attempt at a run ended, or the last message in the log of a step."""
        if found := self._find_attempt(job):
            return describe_attempt(job, *found)
        logs = list_logs(job)
        return f"{job.rule.name} ({', '.join(map(str, logs))}): {read_last_message(logs)}"

    def block(self, failed: Any) -> None:
        """Record that no run that waits for a finally failed job can begin, and start nothing that only these need."""
        dag = self._workflow.dag
        for job in failed.jobs if failed.is_group() else [failed]:
            logs = list_logs(job)
            words = f": {read_last_line(logs)}; its log is {logs[-1]}" if logs else ""
            self.causes.append(self._name_cause(job))
            reason = f"the step {job.rule.name}, which the run needs, failed{words}"
            waiting = () if name_run(job) else dag.bfs(dag.depending, job)
            blocked = [found for found in waiting if name_run(found)]
            self._blocked |= set(map(name_run, blocked))
            problems = filter(None, [_record_block(found, reason) for found in blocked])
            for problem in dict.fromkeys(problems):
                self._say(f"What waits for {job.rule.name} could not be recorded: {problem}")
            if blocked:
                self._drop_useless_steps(dag)

    def _drop_useless_steps(self, dag: Any) -> None:
        """Keep steps from starting that take long and on which only runs wait that cannot begin."""
        for job in list(dag.needrun_jobs()):
            if job.rule.name in LONG_STEPS and not dag.finished(job):
                waiting = {name_run(found) for found in dag.bfs(dag.depending, job) if dag.needrun(found)} - {""}
                if waiting and waiting <= self._blocked:
                    keep_from_starting(self._workflow, job)

    def _check_disks(self) -> None:
        if time.monotonic() - self._checked_at >= DISK_CHECK_S:
            self._checked_at = time.monotonic()
            messages = self._find_full_disks(list_folders())
            self._is_disk_full = bool(messages)
            for message in messages:
                self._say(message)


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
