"""
Patch: Ctrl-C cancels every job of the call, and SIGTERM those that have not started.

The plugin cancels the jobs in its list of active jobs. This list is empty while the plugin asks SLURM for the states of
these jobs, so that a Ctrl-C at this moment cancels nothing. Jobs that wait for a thread to submit them are not in the
list either; they are submitted after the others were cancelled. With the patch, the plugin drops the jobs that were not
submitted yet, waits for the submission in progress, and cancels all jobs whose name ends with that of the call. Then it
cancels the listed ones as before, also on other clusters.

At SIGTERM, Snakemake waits for all submitted jobs, also for those that wait in the queue and may never start. With the
patch, they are cancelled.

Upstream: https://github.com/snakemake/snakemake-executor-plugin-slurm/issues/397 is about jobs that survive Ctrl-C.
Its reporter met another cause (`scancel --clusters=all` without an accounting database), which 2.8.0 no longer has.
docs/upstream.md has the text of a report about the two causes above.
Tested with snakemake-executor-plugin-slurm 2.8.0 and SLURM 22.05.
"""

import subprocess
import threading
import time
from contextlib import suppress
from typing import Any

from howmanygpus.snakemake_patches.patching import check_version, replace
from howmanygpus.train.host.slurm import PATIENCE_S
from howmanygpus.train.start.calls import list_jobs

REPEAT_S = 2.0
"""Time between two cancellations of waiting jobs: a job may be submitted or preempted after one of them."""


def _cancel(call: str, only_waiting: bool = False) -> None:
    """Cancel the jobs of a call, all of them or only those that have not started."""
    # A controller that does not answer must not keep the plugin from its own attempt, which reports the problem.
    with suppress(subprocess.TimeoutExpired):
        if jobs := list_jobs([call], "--me", *["--states=PENDING"] * only_waiting):
            command = ["scancel", *["--state=PENDING"] * only_waiting, *jobs]
            subprocess.run(command, capture_output=True, timeout=PATIENCE_S)


def cancel_waiting_jobs(executor: Any) -> None:
    """Cancel the jobs of a call that have not started, until the call ends, and let the plugin look for ended ones."""

    def cancel() -> None:
        while executor.wait:
            _cancel(executor.run_uuid, only_waiting=True)
            executor.next_seconds_between_status_checks = REPEAT_S
            time.sleep(REPEAT_S)

    threading.Thread(target=cancel, name="cancelling", daemon=True).start()


def _cancel_all(upstream: Any) -> Any:
    def cancel_jobs(executor: Any, active_jobs: list) -> None:
        executor._job_submission_executor.shutdown(cancel_futures=True)
        _cancel(executor.run_uuid)
        upstream(executor, active_jobs)

    return cancel_jobs


def apply() -> None:
    """Patch Executor.cancel_jobs, which Snakemake calls at Ctrl-C, and add the function for SIGTERM."""
    check_version("snakemake-executor-plugin-slurm")
    import snakemake_executor_plugin_slurm as plugin  # installed with the workflow, imported on clusters only

    written_for = "snakemake_executor_plugin_slurm.Executor.cancel_jobs(self, active_jobs)"
    replace(plugin.Executor, "cancel_jobs", written_for, _cancel_all)
    plugin.Executor.cancel_waiting_jobs = cancel_waiting_jobs
