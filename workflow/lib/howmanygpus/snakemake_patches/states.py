"""
Patch: no answer about the states of jobs, and no missing one, makes Snakemake lose a job.

The plugin asks sacct or squeue for the states of all jobs. If five questions fail, as with a controller or a database
that is away for a minute, it forgets all jobs and waits for ever. It also waits for ever for a job that ended while
nobody answered and that the controller has forgotten since, for one that a user has cancelled (sacct names the user,
`CANCELLED by 1000`), and for a preempted one that SLURM does not requeue. It takes a job of the state UNKNOWN for
completed.

With the patch, a job ends for Snakemake only by a state in which jobs end, or if the controller says that it does not
know the job and no database does; its files then tell whether it succeeded. The command of the setting
`slurm-status-command` is asked first, the other one if it fails or leaves a job out, and `scontrol show job` if both do
so for a minute. Silence is told to the user, and a signal ends a question.

Upstream: no issue is known for forgotten jobs and for `CANCELLED by`; the plugin's predecessor had the latter bug,
https://github.com/Snakemake-Profiles/slurm/pull/22. Preempted jobs count as running since
https://github.com/snakemake/snakemake-executor-plugin-slurm/pull/132 (for issue 109), whether or not SLURM requeues
them. docs/upstream.md has the text of the reports.
Tested with snakemake-executor-plugin-slurm 2.8.0 and SLURM 22.05.
"""

import asyncio
import os
import re
import signal
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from howmanygpus.site.slurm import Job, SlurmError, find_job, look_up
from howmanygpus.snakemake_patches.failing import has_started
from howmanygpus.snakemake_patches.patching import check_version, replace

QUESTIONS = {
    "squeue": ["squeue", "--noheader", "--me", "--states=all", "--format=%i|%T"],
    "sacct": ["sacct", "--allocations", "--noheader", "--parsable2", "--format=JobIDRaw,State"],
}
LINE = re.compile(r"(\d+)\|([A-Z_]+)(?: .*)?")
FAILED = {"BOOT_FAIL", "CANCELLED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "REVOKED", "TIMEOUT"}
PATIENCE_S = 120.0
"""Maximum time for an answer, in seconds. A busy controller takes a minute."""
POLL_S = 0.5
SILENT_S = 60.0
"""Time without a state of some job after which the user is told and the controller is asked for this job."""
REPORT_S = 180.0
"""Time between two messages about the same silence."""
LONGEST_PAUSE_S = 180
PAUSE_GROWTH_S = 10


class UnansweredError(Exception):
    """A question has no usable answer; the message says what came instead."""


async def ask(executor: Any, command: list[str]) -> dict[str, str]:
    """Return the states that a command prints, by job. Raises UnansweredError."""
    try:
        options: dict = dict.fromkeys(("stdout", "stderr"), asyncio.subprocess.PIPE) | {"start_new_session": True}
        process = await asyncio.create_subprocess_exec(*command, **options)
    except OSError as error:
        raise UnansweredError(f"{command[0]}: {error.strerror}") from None
    answering, asked_at = asyncio.ensure_future(process.communicate()), time.monotonic()
    while executor.wait and not answering.done() and time.monotonic() - asked_at < PATIENCE_S:
        await asyncio.wait({answering}, timeout=POLL_S)
    if not answering.done():
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        answering.cancel()
        raise UnansweredError(f"{command[0]} did not answer within {PATIENCE_S:.0f} s")
    printed, complaint = (text.decode(errors="replace").strip() for text in answering.result())
    if process.returncode:
        words = complaint.splitlines() or [f"exit status {process.returncode}"]
        raise UnansweredError(f"{command[0]}: {words[-1]}")
    found = {match[1]: match[2] for line in printed.splitlines() if (match := LINE.fullmatch(line.strip()))}
    if printed and not found:
        raise UnansweredError(f"{command[0]} printed {printed.splitlines()[0][:80]!r}")
    return found


class Watch:
    """The states of the jobs of one executor, and the silence about them."""

    def __init__(self, executor: Any):
        self._executor, self._silent_since = executor, dict[str, float]()
        self._told_at: float | None = None

    async def find_states(self, ids: Iterable[str]) -> dict[str, str]:
        """Return the states of jobs that SLURM tells. A job that it does not know any more has the state `GONE`."""
        ids, problems = list(ids), []
        preferred = self._executor.get_status_command()
        states: dict[str, str] = {}
        for name in sorted(QUESTIONS, key=lambda name: name != preferred):
            try:
                command = [*QUESTIONS[name], *([f"--jobs={','.join(ids)}"] if name == "sacct" else [])]
                states = await ask(self._executor, command) | states
            except UnansweredError as error:
                problems.append(str(error))
            if all(job_id in states for job_id in ids):
                break
        now = time.monotonic()
        silent = [job_id for job_id in ids if job_id not in states]
        for job_id in self._note_silence(silent, now):
            if (state := await asyncio.to_thread(find_state, job_id)) is None or not self._executor.wait:
                break
            states[job_id] = state
        self._tell([job_id for job_id in silent if job_id not in states], problems, now)
        return states

    def _note_silence(self, silent: list[str], now: float) -> list[str]:
        """Return the jobs without a state for longer than SILENT_S."""
        self._silent_since = {job_id: self._silent_since.get(job_id, now) for job_id in silent}
        return [job_id for job_id, since in self._silent_since.items() if now - since >= SILENT_S]

    def _tell(self, silent: list[str], problems: list[str], now: float) -> None:
        since = min((self._silent_since[job_id] for job_id in silent), default=now)
        is_due = self._told_at is None or now - self._told_at >= REPORT_S
        if not silent and self._told_at is not None:
            self._told_at = None
            self._executor.logger.warning("SLURM tells the states of all jobs again.")
        elif now - since >= SILENT_S and is_due:
            self._told_at = now
            why = "; ".join(problems) or "its answers leave them out"
            self._executor.logger.warning(
                f"SLURM has not told the state of {len(silent)} job(s) for {now - since:.0f} s: {why}. The jobs go on "
                "and none is given up; SLURM is asked again until it answers. Ctrl-C ends the call."
            )


def find_state(job_id: str) -> str | None:
    """Return the state of one job, `GONE` if neither the controller nor a database knows it; None without an answer."""
    try:
        job = look_up(job_id)
    except SlurmError:
        return None
    return job.state if job else "GONE"


def has_failed(job_id: str, state: str) -> bool:
    if state != "PREEMPTED":
        return state in FAILED
    with suppress(SlurmError):
        return (job := find_job(job_id)) is not None and is_final(job)
    return False


def is_final(job: Job) -> bool:
    """Whether a preempted job will not start again. job: what the controller knows.

    With PreemptMode=CANCEL, SLURM requeues no job, whatever the job allows. The controller shows a job that it has
    requeued as pending or running.
    """
    return not job.may_requeue or job.state == "PREEMPTED"


def has_left_results(job: Any) -> bool:
    """Whether a job that nobody knows any more has succeeded: its Snakemake removes older results when it begins."""
    return has_started(job) and all(Path(path).exists() for path in job.output)


def _succeed(executor: Any, job_info: Any) -> None:
    executor.report_job_success(job_info)
    log = (job_info.aux or {}).get("slurm_logfile")
    if log and not executor.workflow.executor_settings.keep_successful_logs:
        with suppress(OSError):
            log.unlink(missing_ok=True)


def _fail(executor: Any, job_info: Any, words: str) -> None:
    log = (job_info.aux or {}).get("slurm_logfile")
    message = f"SLURM-job '{job_info.external_jobid}' failed, {words}. "
    executor.report_job_error(job_info, msg=message, aux_logs=[str(log)] if log else [])


def _lose_no_job(upstream: Any) -> Any:
    async def check_active_jobs(executor: Any, active_jobs: list) -> AsyncIterator[Any]:
        settings = executor.workflow.executor_settings
        # The plugin's list is empty meanwhile; see cancelling.
        executor.asked_about = active_jobs
        if not hasattr(executor, "watch"):
            executor.watch = Watch(executor)
        states = await executor.watch.find_states(job.external_jobid for job in active_jobs) if active_jobs else {}
        has_ended = not active_jobs
        for job_info in active_jobs:
            job_id, state = job_info.external_jobid, states.get(job_info.external_jobid, "")
            is_gone = state == "GONE"
            if state == "COMPLETED" or (is_gone and has_left_results(job_info.job)):
                _succeed(executor, job_info)
            elif is_gone:
                _fail(executor, job_info, "SLURM does not know it any more, and it has left no result")
            elif has_failed(job_id, state) and not (state == "NODE_FAIL" and settings.requeue):
                _fail(executor, job_info, f"SLURM status is: '{state}'")
            else:
                yield job_info
                continue
            has_ended = True
        pause_s = executor.next_seconds_between_status_checks + PAUSE_GROWTH_S
        first_s = settings.init_seconds_before_status_checks
        is_silent = any(job.external_jobid not in states for job in active_jobs)
        is_soon = has_ended or is_silent
        executor.next_seconds_between_status_checks = first_s if is_soon else min(pause_s, LONGEST_PAUSE_S)

    return check_active_jobs


def apply() -> None:
    """Patch Executor.check_active_jobs, which reports the jobs that have ended and returns the others."""
    check_version("snakemake-executor-plugin-slurm")
    import snakemake_executor_plugin_slurm as plugin  # installed with the workflow, imported on clusters only

    written_for = "snakemake_executor_plugin_slurm.Executor.check_active_jobs(self, active_jobs)"
    replace(plugin.Executor, "check_active_jobs", written_for, _lose_no_job)
