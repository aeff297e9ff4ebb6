"""
Mends of Snakemake 9.27 and of its executor plugin for SLURM 2.8.0.

The plugin waits without end for two kinds of jobs that have ended: cancelled ones where the accounting database is
asked, and preempted ones that do not go back into the queue. At Ctrl-C it overlooks each job whose state it is asking
for, submits those that wait for their turn, and ends only when it would have asked again, after up to three minutes.
It has each job start Snakemake twice, of which ours need one.
Snakemake loses a Ctrl-C that falls into a log message, and takes one in a function of a rule for an error of that rule.
It forgets missing files where they are made of an ancient() one that it makes again.
"""

import asyncio
import functools
import os
import signal
import subprocess
import threading
import time
from pathlib import Path

import snakemake.api  # noqa: F401  (imported first, snakemake.dag does not find itself)
from snakemake.dag import DAG
from snakemake.scheduling.job_scheduler import JobScheduler

from howmanygpus.train.host.slurm import PATIENCE_S, ask_for_job

POLL_S = 0.5
KEPT = ("SLURM_JOB_ID", "SLURM_JOBID", "SLURM_ARRAY_", "SLURM_CLUSTER_NAME", "SLURM_SUBMIT_", "SLURM_CONF")
"""Which job this is, and where SLURM is configured: beginnings of variables."""


def name_state(job_id: str, state: str) -> str:
    """A state as the plugin knows it.

    sacct says by whom a job was cancelled (`CANCELLED by 1000`). PREEMPTED is the last state of a job that is not to be
    put in the queue again, and a passing one of others.
    """
    if state.startswith("CANCELLED"):
        return "CANCELLED"
    if state == "PREEMPTED" and ask_for_job(job_id).get("Requeue") == "0":
        return "CANCELLED"
    return state


class Interruptible:
    """The scheduler's semaphore: it waits there for news of its jobs, and there alone a Ctrl-C comes through.

    A second Ctrl-C comes through wherever it falls.
    """

    def __init__(self, news: threading.Semaphore):
        self._news, self._is_pressed = news, False

    def press(self, *_) -> None:
        """Handle SIGINT."""
        if self._is_pressed:
            raise KeyboardInterrupt
        self._is_pressed = True

    def acquire(self) -> None:
        # A signal's handler must not touch the semaphore, whose lock the interrupted code may hold.
        while not self._is_pressed and not self._news.acquire(timeout=POLL_S):
            pass
        if self._is_pressed:
            raise KeyboardInterrupt

    def release(self) -> None:
        self._news.release()


def mend_scheduler() -> None:
    """Have Ctrl-C reach Snakemake's scheduler between two of its steps."""
    schedule = JobScheduler.schedule
    if hasattr(schedule, "__wrapped__"):
        return

    @functools.wraps(schedule)
    def schedule_interruptibly(scheduler):
        if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            return schedule(scheduler)
        scheduler._open_jobs = news = Interruptible(scheduler._open_jobs)
        signal.signal(signal.SIGINT, news.press)
        try:
            return schedule(scheduler)
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    JobScheduler.schedule = schedule_interruptibly


class Followed:
    """A DAG's edges to the jobs behind each, but for those to jobs that only take an ancient file which is there."""

    def __init__(self, depending: dict):
        self._depending = depending

    def __getitem__(self, job) -> dict:
        jobs = self._depending[job].items()
        return {
            each: files for each, files in jobs if not all(file.is_ancient and Path(file).exists() for file in files)
        }


def mend_planning() -> None:
    """Have Snakemake look at each job that does not follow from a job before it.

    Of the jobs behind one that it plans it looks at none, since they follow; later it leaves out those behind an
    ancient file. What these have to do for other reasons, even the making of missing files, it does not plan.
    """
    update, walk = DAG.update_needrun, DAG.bfs
    if hasattr(update, "__wrapped__"):
        return

    @functools.wraps(update)
    async def update_needrun(dag, *arguments, **options):
        dag.is_planning = True
        try:
            await update(dag, *arguments, **options)
        finally:
            dag.is_planning = False

    @functools.wraps(walk)
    def bfs(dag, direction, *jobs, **options):
        if direction is dag.depending and getattr(dag, "is_planning", False):
            direction = Followed(direction)
        return walk(dag, direction, *jobs, **options)

    DAG.update_needrun, DAG.bfs = update_needrun, bfs


def forget_requests() -> None:
    """Take from a job's environment what it asked sbatch for: each srun and mpirun in it would ask for the same."""
    for name in list(os.environ):
        if name.startswith(("SLURM_", "SRUN_", "SBATCH_")) and not name.startswith(KEPT):
            del os.environ[name]


def mend_plugin() -> None:
    """Have the plugin of this process see its jobs' states through name_state, and cancel all of them, at once.

    And have a job's Snakemake run the job's commands. By the plugin it starts a second, by srun where ours do so
    themselves; arrays of jobs need that.
    """
    import snakemake_executor_plugin_slurm as plugin  # only clusters need it

    query, cancel = plugin.query_job_status, plugin.Executor.cancel_jobs
    name_executor = plugin.Executor.additional_general_args
    if hasattr(query, "__wrapped__"):
        return

    @functools.wraps(query)
    async def query_and_name(*arguments):
        states, duration_s = await query(*arguments)
        named = states and {job_id: name_state(job_id, state) for job_id, state in states.items()}
        return named, duration_s

    @functools.wraps(cancel)
    def cancel_all(executor, active_jobs):
        executor._job_submission_executor.shutdown(cancel_futures=True)
        # All jobs of a call bear its name.
        subprocess.run(["scancel", f"--name={executor.run_uuid}"], capture_output=True, timeout=PATIENCE_S)
        cancel(executor, active_jobs)

    async def sleep_until_the_end(executor):
        """Between two questions, or until there is nothing more to ask for."""
        until = time.monotonic() + executor.next_seconds_between_status_checks
        while executor.wait and time.monotonic() < until:
            await asyncio.sleep(POLL_S)

    @functools.wraps(name_executor)
    def name_no_executor(executor):
        return name_executor(executor) if executor.array_jobs else []

    plugin.query_job_status, plugin.Executor.cancel_jobs = query_and_name, cancel_all
    plugin.Executor.additional_general_args = name_no_executor
    plugin.Executor.sleep = sleep_until_the_end
