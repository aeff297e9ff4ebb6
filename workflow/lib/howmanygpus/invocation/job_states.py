"""
The states of jobs: no answer of SLURM, and no missing one, makes Snakemake lose a job.

The plugin asks sacct or squeue for the states of all jobs. If five questions fail, as with a controller or a database
that is away for a minute, it forgets all jobs and waits for ever. It also waits for ever for a job that ended while
nobody answered and that the controller has forgotten since, for one that a user has cancelled (sacct names the user,
`CANCELLED by 1000`), and for a preempted one that SLURM does not requeue. It takes a job of the state UNKNOWN for
completed.

Here a job ends for Snakemake only by a state in which jobs end, or if the controller says that it does not know the job
and no database does; its files then tell whether it succeeded. The command of the setting `slurm-status-command` is
asked first, the other one if it fails or leaves a job out, and the controller about single jobs if both do so for a
minute. Silence is told to the user, and a signal ends a question.

Upstream: no issue is known for forgotten jobs and for `CANCELLED by`; the plugin's predecessor had the latter bug,
https://github.com/Snakemake-Profiles/slurm/pull/22. Preempted jobs count as running since
https://github.com/snakemake/snakemake-executor-plugin-slurm/pull/132 (for issue 109), whether or not SLURM requeues
them. See docs/upstream.md.
"""

import asyncio
import time
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import Any

from howmanygpus.site import slurm
from howmanygpus.site.slurm import Job, SlurmError

COMMANDS = slurm.STATUS_COMMANDS
FAILED = {"BOOT_FAIL", "CANCELLED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "REVOKED", "TIMEOUT"}
PATIENCE_S = 120.0
"""Maximum time for an answer, in seconds. A busy controller takes a minute."""
SILENT_S = 60.0
"""Time without a state of some job after which the user is told and the controller is asked for this job."""
REPORT_S = 180.0
"""Time between two messages about the same silence."""


class Watch:
    """The states of the jobs of one executor, and the silence about them. seconds: of jobs that have ended, if told."""

    def __init__(self, executor: Any):
        self._executor, self._silent_since, self.seconds = executor, dict[str, float](), dict[str, float]()
        self._told_at: float | None = None

    async def read_states(self, ids: Iterable[str]) -> dict[str, str]:
        """Return the states of jobs that SLURM tells. A job that it does not know any more has the state `GONE`."""
        ids, problems = list(ids), []
        preferred = self._executor.get_status_command()
        states: dict[str, str] = {}
        for command in sorted(COMMANDS, key=lambda command: command != preferred):
            try:
                states = await asyncio.to_thread(self._ask, command, ids) | states
            except SlurmError as error:
                problems.append(str(error))
            if all(job_id in states for job_id in ids):
                break
        now = time.monotonic()
        silent = [job_id for job_id in ids if job_id not in states]
        for job_id in self._note_silence(silent, now):
            if (state := await asyncio.to_thread(read_state, job_id)) is None or not self._executor.wait:
                break
            states[job_id] = state
        self._tell([job_id for job_id in silent if job_id not in states], problems, now)
        return states

    def _ask(self, command: str, ids: list[str]) -> dict[str, str]:
        """Return the states that a command of SLURM tells, by job. Raises SlurmError."""
        ask = partial(slurm.list_queue, "all") if command == "squeue" else partial(slurm.list_accounted, ids)
        jobs = ask(patience_s=PATIENCE_S, is_wanted=lambda: self._executor.wait)
        for job in jobs:
            if job.started_at is not None and job.ended_at is not None:
                self.seconds[job.id] = job.ended_at - job.started_at
        return {job.id: job.state for job in jobs}

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


def read_state(job_id: str) -> str | None:
    """Return the state of one job, `GONE` if neither the controller nor a database knows it; None without an answer."""
    try:
        if job := slurm.find_job(job_id):
            return job.state or None
    except SlurmError:
        return None
    try:
        known = slurm.list_accounted([job_id])
    except SlurmError:
        known = []
    return known[-1].state if known else "GONE"


def has_failed(job_id: str, state: str) -> bool:
    return state in FAILED or (state == "PREEMPTED" and is_final(job_id))


def find_failed_in_grace(job_id: str) -> Job | None:
    """Return a job if it failed in the grace time of a preemption, before SLURM requeued it or ended it."""
    with suppress(SlurmError):
        job = slurm.find_job(job_id)
        return job if job and job.failed_in_grace else None
    return None


def is_final(job_id: str) -> bool:
    """Whether a preempted job will not start again, according to the controller.

    With PreemptMode=CANCEL, SLURM requeues no job, whatever the job allows. The controller shows a job that it has
    requeued as pending or running.
    """
    try:
        job = slurm.find_job(job_id)
    except SlurmError:
        return False
    return job is not None and (not job.may_requeue or job.state == "PREEMPTED")
