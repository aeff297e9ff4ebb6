"""
Patch: Ctrl-C cancels every job of the call.

The plugin cancels the jobs in its list of active jobs. This list is empty while the plugin asks SLURM for the states of
these jobs, so that a Ctrl-C at this moment cancels nothing. Jobs that wait for a thread to submit them are not in the
list either; they are submitted after the others were cancelled. With the patch, the plugin drops the jobs that were not
submitted yet, waits for the submission in progress, and cancels all jobs that the call has submitted. Then it cancels
the listed ones as before, also on other clusters.

Upstream: https://github.com/snakemake/snakemake-executor-plugin-slurm/issues/397 is about jobs that survive Ctrl-C.
Its reporter met another cause (`scancel --clusters=all` without an accounting database), which 2.8.0 no longer has.
docs/upstream.md has the text of a report about the two causes above.
Tested with snakemake-executor-plugin-slurm 2.8.0 and SLURM 22.05.
"""

import subprocess
from contextlib import suppress
from typing import Any

from howmanygpus.snakemake_patches.patching import check_version, replace
from howmanygpus.train.host.slurm import PATIENCE_S

SUBMITTED = "_submitted_by_howmanygpus"
"""Attribute of the executor with the ids of all jobs that it has submitted."""


def _note_id(upstream: Any) -> Any:
    def report(executor: Any, job_info: Any) -> None:
        vars(executor).setdefault(SUBMITTED, []).append(job_info.external_jobid)
        upstream(executor, job_info)

    return report


def _cancel_all(upstream: Any) -> Any:
    def cancel_jobs(executor: Any, active_jobs: list) -> None:
        executor._job_submission_executor.shutdown(cancel_futures=True)
        # A controller that does not answer must not keep the plugin from its own attempt, which reports the problem.
        with suppress(subprocess.TimeoutExpired):
            if submitted := vars(executor).get(SUBMITTED):
                subprocess.run(["scancel", *submitted], capture_output=True, timeout=PATIENCE_S)
        upstream(executor, active_jobs)

    return cancel_jobs


def apply() -> None:
    """Patch Executor.cancel_jobs, which Snakemake calls at Ctrl-C, and the method that hears of each submitted job."""
    check_version("snakemake-executor-plugin-slurm")
    import snakemake_executor_plugin_slurm as plugin  # installed with the workflow, imported on clusters only

    owner = "snakemake_executor_plugin_slurm.Executor"
    replace(plugin.Executor, "cancel_jobs", f"{owner}.cancel_jobs(self, active_jobs)", _cancel_all)
    name = "_report_job_submission_threadsafe"
    replace(plugin.Executor, name, f"{owner}.{name}(self, job_info)", _note_id)
