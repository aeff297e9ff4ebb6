"""
Patch: a job is submitted when SLURM can take it, and a job that is in the queue already is not submitted again.

The plugin gives a job up when sbatch fails once, also if the controller was away for a moment or takes no further job
of the user at present. With the patch, sbatch is called again after a pause: for minutes if the controller does not
answer, and as long as jobs of this call go on if so many are submitted already. A job that a killed call has submitted
for the same work is taken over; see call.taking_over.

The plugin attaches sbatch's message to the event of the failed job. The logger `rich` does not print it, and with every
logger it is lost when the call ends. With the patch, it is a separate message and the content of the job's log, and a
run gets an attempt with the status `refused`.

A job that SLURM accepted may end before its run has begun an attempt: while it waits, or while it starts. With the
patch, the run gets an attempt with the status and the reason that SLURM gives, or with the last words of the job.

Upstream: no issue is known; docs/upstream.md has the text of a report.
Tested with snakemake-executor-plugin-slurm 2.8.0, snakemake-logger-plugin-rich 0.5.1 and SLURM 22.05.
"""

import re
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from howmanygpus.call.attempts import record_refusal, record_unstarted
from howmanygpus.call.taking_over import Note, find_outdated, take_over, write_note
from howmanygpus.site.slurm import PATIENCE_S
from howmanygpus.snakemake_patches.failing import describe_run, find_last_words, list_logs, name_run
from howmanygpus.snakemake_patches.naming import describe_job
from howmanygpus.snakemake_patches.patching import check_version, replace

SAID = re.compile(r"The error message was '(.*?)'\.\n", re.DOTALL)
"""The part of the plugin's message that quotes sbatch. The whole command line follows it."""
TOO_MANY = re.compile(r"MaxSubmitJob|GrpSubmitJob")
"""SLURM's words for more jobs in the queue than a QOS or an association allows."""
FEWER = "lower `jobs` in config.yaml of the profile: so many jobs are submitted at once"
AWAY = re.compile(
    r"contact slurm controller|[Tt]imed out|[Tt]emporar|Zero [Bb]ytes|Connection (refused|reset)|[Ss]tandby|"
    r"(receive|send) failure|Transport endpoint|[Aa]uthentication|writing script/environment|Unspecified error"
)
"""SLURM's words for a controller that may take the same job later (slurm_errno.c)."""
FINAL = re.compile(r"[Ii]nvalid|not (permitted|available|found|be satisfied)|[Dd]enied|violates|[Uu]nrecognized")
"""SLURM's words for a job that it will never take."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 5.0, 60.0
AWAY_S, UNKNOWN_S = 900.0, 30.0
"""How long sbatch is tried again, in seconds: without the controller, and with a message that is not known."""
REPORT_S = 180.0
"""Time between two messages about jobs that cannot be submitted yet."""
POLL_S = 0.5
BASE = "snakemake_interface_executor_plugins.executors.base.AbstractExecutor"

_submission = threading.local()
"""State of run_job in this thread: `since`, when it first called sbatch, and `refusal`, what sbatch said last."""


def find_refusal(message: str) -> str:
    """Return in one line sbatch's message or, if sbatch was not called, why the plugin did not submit the job.

    A limit of submitted jobs gets a remedy: the other jobs only need to be submitted later.
    """
    quoted = SAID.search(message)
    said = " ".join((quoted[1] if quoted else message).split())
    return f"SLURM refused the job: {said}" + (f"; {FEWER}" if TOO_MANY.search(said) else "")


def find_patience_s(message: str, has_jobs: bool) -> float:
    """Return how long sbatch is tried again after a message. has_jobs: whether jobs of this call go on."""
    if not (quoted := SAID.search(message)):
        return 0.0
    if TOO_MANY.search(message):
        return float("inf") if has_jobs else AWAY_S
    if AWAY.search(message):
        return AWAY_S
    return 0.0 if FINAL.search(quoted[1]) else UNKNOWN_S


def keep_refusal(job: Any, reason: str) -> None:
    """Write why a job was refused to its log and, for a run, to the record of an attempt."""
    for log in list_logs(job):
        log.write_text(f"{reason}\n")
    if run := name_run(job):
        record_refusal(run, *describe_run(job), reason)


def is_ending(executor: Any) -> bool:
    """Whether a signal has ended the call; see cancelling."""
    return getattr(executor, "is_ending", False) or not executor.wait


def _keep_refusals(upstream: Any) -> Any:
    said: set[tuple[str, str]] = set()

    def report_job_error(executor: Any, job_info: Any, msg: str) -> None:
        if (since := getattr(_submission, "since", None)) is not None and not is_ending(executor):
            has_jobs = bool([*executor.active_jobs, *getattr(executor, "asked_about", ())])
            if time.monotonic() - since < find_patience_s(msg, has_jobs):
                _submission.refusal = msg
                return
        reason = find_refusal(msg)
        # With retries, SLURM gives the same answer again.
        if (told := (str(job_info.job.log), f"{name_run(job_info.job) or job_info.job}: {reason}")) not in said:
            said.add(told)
            executor.logger.error(told[1])
        try:
            keep_refusal(job_info.job, reason)
        except Exception as error:
            # Snakemake must learn of the failure, or it would wait for the job for ever.
            executor.logger.error(f"The refusal could not be recorded: {type(error).__name__}: {error}")
        upstream(executor, job_info, msg)

    return report_job_error


def _submit_patiently(upstream: Any) -> Any:
    told = {"at": -REPORT_S}

    def tell(executor: Any, job: Any, message: str) -> None:
        if time.monotonic() - told["at"] >= REPORT_S:
            told["at"] = time.monotonic()
            words = find_refusal(message).removeprefix("SLURM refused the job: ")
            executor.logger.warning(f"{name_run(job) or job}: not submitted yet, sbatch is tried again: {words}")

    def run_job(executor: Any, job: Any) -> None:
        if note := take_over(job):
            _report_older(executor, job, note)
            return
        if outdated := find_outdated(job):
            # The launcher replaces a running attempt, and says so in its record.
            state = ["--state=PENDING"] if name_run(job) else []
            with suppress(subprocess.TimeoutExpired):
                subprocess.run(["scancel", *state, outdated], capture_output=True, timeout=PATIENCE_S)
        _submission.since, pause_s = time.monotonic(), FIRST_PAUSE_S
        while True:
            _submission.refusal = None
            upstream(executor, job)
            if _submission.refusal is None:
                break
            tell(executor, job, _submission.refusal)
            until = time.monotonic() + pause_s
            while time.monotonic() < until and not is_ending(executor):
                time.sleep(POLL_S)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
        _submission.since = None

    return run_job


def _report_older(executor: Any, job: Any, note: Note) -> None:
    """Report the job of a killed call as that of this call, and give it this call's name, by which it is cancelled."""
    from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo

    command = ["scontrol", "update", f"JobId={note.job}", f"JobName={describe_job(job)}_{executor.run_uuid}"]
    with suppress(subprocess.TimeoutExpired):
        subprocess.run(command, capture_output=True, timeout=PATIENCE_S)
    executor.logger.info(f"{name_run(job) or job}: job {note.job} of an earlier call is doing this; it is waited for.")
    executor._report_job_submission_threadsafe(SubmittedJobInfo(job, note.job, {"slurm_logfile": Path(note.log)}))


def _note_submissions(upstream: Any) -> Any:
    def report_job_submission(executor: Any, job_info: Any) -> None:
        if not job_info.job.is_group():
            with suppress(OSError):
                write_note(job_info.job, job_info.external_jobid, job_info.aux["slurm_logfile"])
        upstream(executor, job_info)

    return report_job_submission


def _keep_ends(upstream: Any) -> Any:
    def report_job_error(executor: Any, job_info: Any, msg: Any = None, **more: Any) -> None:
        job, job_id = job_info.job, str(job_info.external_jobid)
        try:
            if (run := name_run(job)) and job_id.isdecimal():
                logs = [*list_logs(job), *map(Path, more.get("aux_logs") or [])]
                record_unstarted(run, *describe_run(job), job_id, find_last_words(logs))
        except Exception as error:
            executor.logger.error(f"The end of job {job_id} could not be recorded: {type(error).__name__}: {error}")
        upstream(executor, job_info, msg, **more)

    return report_job_error


def apply() -> None:
    """Patch Executor.run_job, and the functions by which the plugin reports a submitted, refused or failed job."""
    check_version("snakemake-executor-plugin-slurm")
    import snakemake_executor_plugin_slurm as plugin  # installed with the workflow, imported on clusters only

    place = "snakemake_executor_plugin_slurm.Executor"
    replace(
        plugin.Executor,
        "_report_job_error_threadsafe",
        f"{place}._report_job_error_threadsafe(self, job_info, msg)",
        _keep_refusals,
    )
    written_for = f"{place}._report_job_submission_threadsafe(self, job_info)"
    replace(plugin.Executor, "_report_job_submission_threadsafe", written_for, _note_submissions)
    replace(plugin.Executor, "run_job", f"{place}.run_job(self, job)", _submit_patiently)
    written_for = f"{BASE}.report_job_error(self, job_info, msg, **kwargs)"
    replace(plugin.Executor, "report_job_error", written_for, _keep_ends)
