"""
The executor of jobs in SLURM's queue: the plugin's, with other methods where it loses, repeats or misnames jobs.

A user names `slurm` and its options. When the Snakefile is read, `adopt` makes this class the one that Snakemake starts
for that name, because Snakemake has looked for plugins by then and the library is not on its path before.

Submitting. The plugin gives a job up when sbatch fails once, also if the controller was away for a moment or takes no
further job of the user at present. Here sbatch is called again after a pause: for minutes if the controller does not
answer, and as long as jobs of this call go on if so many are submitted already. A job that a killed call has submitted
for the same work is taken over; see invocation.submitted_jobs. sbatch's message, which the plugin attaches to an event
that some loggers drop, is a separate message and the content of the job's log, and a run gets an attempt with the
status `refused`. A job that SLURM accepted may end before its run has begun an attempt: the run then gets an attempt
with the status and the reason that SLURM gives, or with the last words of the job.

States. See invocation.job_states.

Cancelling. The plugin cancels the jobs in its list of active jobs. This list is empty while the plugin asks SLURM for
the states of these jobs, so that a Ctrl-C at this moment cancels nothing. Jobs that wait for a thread to submit them
are not in the list either; they are submitted after the others were cancelled. Here the plugin drops the jobs that were
not submitted yet, waits for the submission in progress, and cancels the listed jobs, those that it asks for, and all
whose name ends with that of the call. If SLURM does not answer, a message names the command that cancels them later.
At SIGTERM, jobs that have not started are cancelled.

Comfort. Without `slurm_account`, the plugin guesses an account by a command that never answers and warns three times;
SLURM itself knows the default account. It sleeps up to 180 s between two questions, also when Snakemake wants to end.
It has each job start Snakemake twice, while the job's devices are idle: a job took 3 s beyond its work without the
second one and 5 s with it (benchmarks/slurm_cost.py --patch one_snakemake).

Upstream: https://github.com/snakemake/snakemake-executor-plugin-slurm/issues/397 (in part), 252, 33 and 400;
see docs/upstream.md.
Tested with snakemake-executor-plugin-slurm 2.8.0, snakemake-interface-executor-plugins 9.4.0 and SLURM 22.05.
"""

import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import snakemake_executor_plugin_slurm as plugin
from snakemake_interface_common.exceptions import WorkflowError
from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo
from snakemake_interface_executor_plugins.registry import ExecutorPluginRegistry

from howmanygpus.invocation.attempts import record_refusal, record_unstarted
from howmanygpus.invocation.failing import describe_run, has_started, list_logs, name_run, read_last_line, renew_logs
from howmanygpus.invocation.job_states import Watch, find_failed_in_grace, has_failed
from howmanygpus.invocation.refusals import find_patience_s, find_refusal, is_final, may_be_late
from howmanygpus.invocation.submitted_jobs import (
    SubmittedJob,
    find_outdated,
    note_devices,
    note_seconds,
    take_over,
    write_note,
)
from howmanygpus.invocation.versions import REMEDY, find_misfit
from howmanygpus.site import slurm
from howmanygpus.site.jobs import ledger
from howmanygpus.site.jobs.endings import ask_for_end
from howmanygpus.site.jobs.invocations import list_jobs
from howmanygpus.site.slurm import SlurmError

FIRST_PAUSE_S, MAX_PAUSE_S = 5.0, 60.0
"""Pauses between two calls of sbatch for the same job."""
REPORT_S = 180.0
"""Time between two messages about jobs that cannot be submitted yet."""
REPEAT_S = 2.0
"""Time between two cancellations of waiting jobs: a job may be submitted or preempted after one of them."""
POLL_S = 0.5
"""How often a pause looks whether it is still needed."""
LONGEST_QUESTION_PAUSE_S, PAUSE_GROWTH_S = 180, 10
PLACE = "snakemake_executor_plugin_slurm.Executor"
INTERFACE = "snakemake_interface_executor_plugins.executors"
REPLACED = {
    "run_job": f"{PLACE}.run_job(self, job)",
    "_report_job_error_threadsafe": f"{PLACE}._report_job_error_threadsafe(self, job_info, msg)",
    "_report_job_submission_threadsafe": f"{PLACE}._report_job_submission_threadsafe(self, job_info)",
    "report_job_error": f"{INTERFACE}.base.AbstractExecutor.report_job_error(self, job_info, msg, **kwargs)",
    "check_active_jobs": f"{PLACE}.check_active_jobs(self, active_jobs)",
    "cancel_jobs": f"{PLACE}.cancel_jobs(self, active_jobs)",
}
"""The plugin's methods that are replaced so that no job is lost or repeated."""
REPLACED_FOR_COMFORT = {
    "get_account_arg": f"{PLACE}.get_account_arg(self, job)",
    "sleep": f"{INTERFACE}.remote.RemoteExecutor.sleep(self)",
    "additional_general_args": f"{PLACE}.additional_general_args(self)",
}
KEPT = (
    *("SLURM_JOB_ID", "SLURM_JOBID", "SLURM_JOB_USER", "SLURM_ARRAY_", "SLURM_CLUSTER_NAME"),
    *("SLURM_SUBMIT_", "SLURM_CONF", "SLURM_TMPDIR"),
)
"""Prefixes of the variables that a job keeps: its identity, where SLURM is configured, and the node's own disk."""

_submission = threading.local()
"""State of run_job in this thread: `since`, when it first called sbatch, `refusal`, what sbatch said last, `job_id`."""


class Executor(plugin.Executor):
    """The plugin's executor.

    is_ending: whether a signal has ended the call. asked_about: jobs in a question. not_noted: Snakemake's jobs that a
    full disk kept from being noted for the bill, each with its id in SLURM.
    """

    is_ending = False
    asked_about: Sequence[SubmittedJobInfo] = ()
    not_noted: list[tuple[Any, str]]

    def __init__(self, workflow: Any, logger: Any):
        check_fits(logger.warning)
        self._watch, self._told_at, self._told = Watch(self), -REPORT_S, set[tuple[str, str]]()
        self.not_noted = []
        super().__init__(workflow, logger)

    def run_job(self, job: Any) -> None:
        if note := take_over(job):
            self._report_older(job, note)
            return
        if outdated := find_outdated(job):
            with suppress(SlurmError):
                # The launcher replaces a running attempt, and says so in its record.
                slurm.cancel([outdated], only_waiting=bool(name_run(job)))
        _submission.since, pause_s, was_late = time.monotonic(), FIRST_PAUSE_S, False
        _submission.job_id = None
        while True:
            _submission.refusal = None
            super().run_job(job)
            if _submission.refusal is None:
                break
            was_late |= may_be_late(_submission.refusal)
            self._tell_of_delay(job, _submission.refusal)
            until = time.monotonic() + pause_s
            while time.monotonic() < until and not self._must_end():
                time.sleep(POLL_S)
            pause_s = min(2 * pause_s, MAX_PAUSE_S)
        _submission.since = None
        if was_late and _submission.job_id:
            self._cancel_doubles(job)

    def _cancel_doubles(self, job: Any) -> None:
        """Cancel the jobs of an sbatch whose answer only was late, beside the one that is followed.

        They are billed if they have started, so that they are noted.
        """
        with suppress(SlurmError):
            alike: dict[tuple, set[str]] = {}
            for each in slurm.list_queue("all"):
                # The plugin's comment names the rule and its wildcards, the name is that of the call.
                alike.setdefault((each.name, each.comment), set()).add(each.id)
            for (_, comment), ids in alike.items():
                if comment and _submission.job_id in ids:
                    for double in ids - {_submission.job_id}:
                        self._note_devices(job, double)
                    slurm.cancel(ids - {_submission.job_id})

    def _note_devices(self, job: Any, job_id: str) -> None:
        """Note a job for its bill. Whatever fails, the job goes on; what a full disk rejects is tried again."""
        try:
            note_devices(job, job_id)
        except OSError as error:
            self.not_noted.append((job, job_id))
            self.logger.warning(f"Job {job_id} could not be noted for the bill yet: {error}")
        except Exception as error:
            self.logger.warning(f"Job {job_id} could not be noted for the bill: {type(error).__name__}: {error}")

    def note_again(self) -> list[str]:
        """Try again to note jobs for the bill, and return the ids of those that still are not noted."""
        for noted in list(self.not_noted):
            with suppress(OSError):
                note_devices(*noted)
                self.not_noted.remove(noted)
        return [job_id for _, job_id in self.not_noted]

    def _must_end(self) -> bool:
        return self.is_ending or not self.wait

    def _tell_of_delay(self, job: Any, message: str) -> None:
        if time.monotonic() - self._told_at >= REPORT_S:
            self._told_at = time.monotonic()
            words = find_refusal(message).removeprefix("SLURM refused the job: ")
            self.logger.warning(f"{name_run(job) or job}: not submitted yet, sbatch is tried again: {words}")

    def _report_older(self, job: Any, note: SubmittedJob) -> None:
        """Report the job of a killed call as that of this call, and give it this call's name, which cancels it."""
        with suppress(SlurmError):
            slurm.rename(note.job, self.run_uuid)
        self.logger.info(f"{name_run(job) or job}: job {note.job} of an earlier call is doing this; it is waited for.")
        self._report_job_submission_threadsafe(SubmittedJobInfo(job, note.job, {"slurm_logfile": Path(note.log)}))

    def _report_job_submission_threadsafe(self, job_info: SubmittedJobInfo) -> None:
        _submission.job_id = str(job_info.external_jobid)
        if not job_info.job.is_group():
            self._note_devices(job_info.job, str(job_info.external_jobid))
            with suppress(OSError):
                write_note(job_info.job, str(job_info.external_jobid), (job_info.aux or {})["slurm_logfile"])
        super()._report_job_submission_threadsafe(job_info)

    def _report_job_error_threadsafe(self, job_info: SubmittedJobInfo, msg: str) -> None:
        """Have run_job call sbatch again, or record why a job was refused."""
        if (since := getattr(_submission, "since", None)) is not None and not self._must_end():
            has_jobs = bool([*self.active_jobs, *self.asked_about])
            if time.monotonic() - since < find_patience_s(msg, has_jobs):
                _submission.refusal = msg
                return
            if is_final(msg):
                # SLURM would give the same answer to Snakemake's retries.
                job_info.job.attempt = max(job_info.job.attempt, job_info.job.restart_times + 1)
        reason = find_refusal(msg)
        # With retries, SLURM may give the same answer again.
        if (told := (str(job_info.job.log), f"{name_run(job_info.job) or job_info.job}: {reason}")) not in self._told:
            self._told.add(told)
            self.logger.error(told[1])
        try:
            keep_refusal(job_info.job, reason)
        except Exception as error:
            # Snakemake must learn of the failure, or it would wait for the job for ever.
            self.logger.error(f"The refusal could not be recorded: {type(error).__name__}: {error}")
        super()._report_job_error_threadsafe(job_info, msg)

    def report_job_error(self, job_info: SubmittedJobInfo, msg: str | None = None, **more: Any) -> None:
        """Record the end of a job whose run had not begun an attempt, or why SLURM ended another step."""
        job, job_id = job_info.job, str(job_info.external_jobid)
        try:
            if (run := name_run(job)) and job_id.isdecimal():
                logs = [*list_logs(job), *map(Path, more.get("aux_logs") or [])]
                record_unstarted(run, *describe_run(job), job_id, read_last_line(logs))
            elif job_id.isdecimal():
                keep_end(job, job_id, [Path(log) for log in more.get("aux_logs") or []])
        except Exception as error:
            self.logger.error(f"The end of job {job_id} could not be recorded: {type(error).__name__}: {error}")
        super().report_job_error(job_info, msg, **more)

    async def check_active_jobs(self, active_jobs: list) -> AsyncIterator[SubmittedJobInfo]:
        """Report the jobs that have ended, and return the others."""
        settings = self.workflow.executor_settings
        self.note_again()
        # The plugin's list is empty meanwhile.
        self.asked_about = active_jobs
        states = await self._watch.read_states(job.external_jobid for job in active_jobs) if active_jobs else {}
        has_ended = not active_jobs
        for job_info in active_jobs:
            job_id, state = job_info.external_jobid, states.get(job_info.external_jobid, "")
            is_gone = state == "GONE"
            if state == "COMPLETED" or (is_gone and has_left_results(job_info.job)):
                self._succeed(job_info)
            elif is_gone:
                self._fail(job_info, "SLURM does not know it any more, and it has left no result")
            elif has_failed(job_id, state) and not (state == "NODE_FAIL" and settings.requeue):
                self._fail(job_info, f"SLURM status is: '{state}'")
            else:
                yield job_info
                continue
            has_ended = True
        is_soon = has_ended or any(job.external_jobid not in states for job in active_jobs)
        pause_s: float = self.next_seconds_between_status_checks  # type: ignore[has-type]
        longer_s = min(pause_s + PAUSE_GROWTH_S, LONGEST_QUESTION_PAUSE_S)
        self.next_seconds_between_status_checks = settings.init_seconds_before_status_checks if is_soon else longer_s

    def _succeed(self, job_info: SubmittedJobInfo) -> None:
        if not job_info.job.is_group():
            with suppress(OSError):
                note_seconds(job_info.job, self._watch.seconds.get(str(job_info.external_jobid)))
        self.report_job_success(job_info)
        log = (job_info.aux or {}).get("slurm_logfile")
        if log and not self.workflow.executor_settings.keep_successful_logs:
            with suppress(OSError):
                log.unlink(missing_ok=True)

    def _fail(self, job_info: SubmittedJobInfo, words: str) -> None:
        if preempted := find_failed_in_grace(job_info.external_jobid):
            ledger.note_preemption(preempted)
            # SLURM would have put it into the queue again, which uses up no retry either.
            job_info.job.attempt -= preempted.may_requeue
        log = (job_info.aux or {}).get("slurm_logfile")
        message = f"SLURM-job '{job_info.external_jobid}' failed, {words}. "
        self.report_job_error(job_info, msg=message, aux_logs=[str(log)] if log else [])

    def cancel_jobs(self, active_jobs: list) -> None:
        self.is_ending = True
        self._job_submission_executor.shutdown(cancel_futures=True)
        listed = [job.external_jobid for job in (*active_jobs, *self.asked_about) if job.external_jobid]
        try:
            slurm.cancel([*listed, *list_jobs([self.run_uuid])])
        except SlurmError as error:
            self.logger.error(
                f"The jobs of this call could not be cancelled: {error}. They go on; when SLURM answers again, "
                f"`scancel {' '.join(sorted(set(listed)))}` cancels them."
            )

    def cancel_waiting_jobs(self) -> None:
        """Cancel the jobs of a call that have not started, until the call ends, and soon look for ended ones."""

        def cancel() -> None:
            while self.wait:
                with suppress(SlurmError):
                    slurm.cancel(list_jobs([self.run_uuid], "PENDING"), only_waiting=True)
                self.next_seconds_between_status_checks = REPEAT_S
                time.sleep(REPEAT_S)

        self.is_ending = True
        threading.Thread(target=cancel, name="cancelling", daemon=True).start()

    def get_account_arg(self, job: Any) -> Iterator[str]:
        return super().get_account_arg(job) if job.resources.get("slurm_account") else iter([""])

    async def sleep(self) -> None:
        started = time.monotonic()
        # The pause may become shorter while it lasts, see cancel_waiting_jobs.
        while self.wait and time.monotonic() < started + self.next_seconds_between_status_checks:
            await asyncio.sleep(POLL_S)

    def additional_general_args(self) -> list[str]:
        return []


def keep_refusal(job: Any, reason: str) -> None:
    """Write why a job was refused to its log and, for a run, to the record of an attempt."""
    for log in list_logs(job):
        log.write_text(f"{reason}\n")
    if run := name_run(job):
        record_refusal(run, *describe_run(job), reason)


def keep_end(job: Any, job_id: str, logs: list[Path]) -> None:
    """Write to the log of a step why SLURM ended its job, or why its job ended before it began.

    logs: to which SLURM writes the output of the job.
    """
    reason = ask_for_end(job_id).get("reason", "")
    if not has_started(job):
        reason = f"job {job_id} ended before the step began: {reason or read_last_line([*list_logs(job), *logs])}"
        renew_logs(list_logs(job))
    for log in list_logs(job) if reason else []:
        with log.open("a") as file:
            file.write(f"{reason}\n")


def has_left_results(job: Any) -> bool:
    """Whether a job that nobody knows any more has succeeded: its Snakemake removes older results when it begins."""
    return has_started(job) and all(Path(path).exists() for path in job.output)


def check_fits(warn: Any) -> None:
    """Compare the plugin's methods with those that ours were written for. Methods for comfort are dropped if not.

    warn: prints a message that stops nothing.
    """
    if misfits := list(filter(None, (find_misfit(plugin.Executor, *each) for each in REPLACED.items()))):
        raise WorkflowError(f"{misfits[0]}, so that jobs may be lost or repeated; {REMEDY}")
    for name, written_for in REPLACED_FOR_COMFORT.items():
        if name in vars(Executor) and (misfit := find_misfit(plugin.Executor, name, written_for)):
            warn(f"{misfit}; the plugin's own method is used")
            delattr(Executor, name)


def adopt() -> None:
    """Have Snakemake start this executor for the name `slurm`."""
    ExecutorPluginRegistry().get_plugin("slurm").executor = Executor


def forget_requests() -> None:
    """Remove from a job's environment what it asked sbatch for: each srun and mpirun in it would ask for the same.

    The plugin's first Snakemake of a job would do so.
    """
    for name in list(os.environ):
        if name.startswith(("SLURM_", "SRUN_", "SBATCH_")) and not name.startswith(KEPT):
            del os.environ[name]
