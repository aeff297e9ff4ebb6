"""
Patch: Ctrl-C cancels every job of the call, and SIGTERM those that have not started.

The plugin cancels the jobs in its list of active jobs. This list is empty while the plugin asks SLURM for the states of
these jobs, so that a Ctrl-C at this moment cancels nothing. Jobs that wait for a thread to submit them are not in the
list either; they are submitted after the others were cancelled. If scancel fails, Ctrl-C ends in an exception. With the
patch, the plugin drops the jobs that were not submitted yet, waits for the submission in progress, and cancels the
listed jobs, those that it asks for, and all whose name ends with that of the call. If SLURM does not answer, a message
names the command that cancels them later.

At SIGTERM, Snakemake waits for all submitted jobs, also for those that wait in the queue and may never start. With the
patch, they are cancelled.

Upstream: https://github.com/snakemake/snakemake-executor-plugin-slurm/issues/397 is about jobs that survive Ctrl-C.
Its reporter met another cause (`scancel --clusters=all` without an accounting database), which 2.8.0 no longer has.
docs/upstream.md has the text of a report about the two causes above.
Tested with snakemake-executor-plugin-slurm 2.8.0 and SLURM 22.05.
"""

import re
import subprocess
import threading
import time
from collections.abc import Iterable
from typing import Any

from howmanygpus.site.slurm import FORGOTTEN, PATIENCE_S
from howmanygpus.snakemake_patches.patching import check_version, replace
from howmanygpus.train.start.calls import list_jobs

ENDED = re.compile(f"{FORGOTTEN}|already complet")
"""What scancel says of a job that has ended."""
REPEAT_S = 2.0
"""Time between two cancellations of waiting jobs: a job may be submitted or preempted after one of them."""


def _cancel(jobs: Iterable[str], *options: str) -> str:
    """Cancel jobs. Return why that failed; empty if it did not, or if the jobs had ended."""
    if not (named := sorted(set(jobs))):
        return ""
    try:
        done = subprocess.run(["scancel", *options, *named], capture_output=True, text=True, timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        return f"scancel did not answer within {PATIENCE_S:.0f} s"
    problems = [line for line in done.stderr.splitlines() if line.strip() and not ENDED.search(line)]
    return problems[-1].strip() if done.returncode and problems else ""


def cancel_waiting_jobs(executor: Any) -> None:
    """Cancel the jobs of a call that have not started, until the call ends, and let the plugin look for ended ones."""

    def cancel() -> None:
        while executor.wait:
            _cancel(list_jobs([executor.run_uuid], "PENDING"), "--state=PENDING")
            executor.next_seconds_between_status_checks = REPEAT_S
            time.sleep(REPEAT_S)

    executor.is_ending = True
    threading.Thread(target=cancel, name="cancelling", daemon=True).start()


def _cancel_all(upstream: Any) -> Any:
    def cancel_jobs(executor: Any, active_jobs: list) -> None:
        executor.is_ending = True
        executor._job_submission_executor.shutdown(cancel_futures=True)
        listed = [job.external_jobid for job in (*active_jobs, *getattr(executor, "asked_about", ()))]
        if problem := _cancel(filter(None, [*listed, *list_jobs([executor.run_uuid])])):
            executor.logger.error(
                f"The jobs of this call could not be cancelled: {problem}. They go on; when SLURM answers again, "
                f"`scancel {' '.join(sorted(set(filter(None, listed))))}` cancels them."
            )

    return cancel_jobs


def apply() -> None:
    """Patch Executor.cancel_jobs, which Snakemake calls at Ctrl-C, and add the function for SIGTERM."""
    check_version("snakemake-executor-plugin-slurm")
    import snakemake_executor_plugin_slurm as plugin  # installed with the workflow, imported on clusters only

    written_for = "snakemake_executor_plugin_slurm.Executor.cancel_jobs(self, active_jobs)"
    replace(plugin.Executor, "cancel_jobs", written_for, _cancel_all)
    plugin.Executor.cancel_waiting_jobs = cancel_waiting_jobs
