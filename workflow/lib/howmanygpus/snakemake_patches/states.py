"""
Patch: the SLURM plugin notices that a cancelled or preempted job has ended.

The plugin compares a job's state with a fixed list, and waits for ever for a job whose state is not in it. Two
states of ended jobs are not in the list. sacct names the user who cancelled a job (`CANCELLED by 1000`). PREEMPTED is
the final state of a job that SLURM does not requeue, such as every one with PreemptMode=CANCEL; the plugin assumes that
all preempted jobs are requeued. With the patch, the plugin sees both as CANCELLED, which it counts as failed.

Upstream: preempted jobs count as running since https://github.com/snakemake/snakemake-executor-plugin-slurm/pull/132
(for issue 109), whether or not SLURM requeues them. For `CANCELLED by` no issue of the plugin is known; its predecessor
had the same bug, https://github.com/Snakemake-Profiles/slurm/pull/22. docs/upstream.md has the text of both reports.
Tested with snakemake-executor-plugin-slurm 2.8.0 and SLURM 22.05.
"""

from typing import Any

from howmanygpus.snakemake_patches.patching import check_version, replace
from howmanygpus.train.host.slurm import ask_for_job


def name_state(job_id: str, state: str) -> str:
    """Return a job's state by a name that the plugin knows."""
    if state.startswith("CANCELLED"):
        return "CANCELLED"
    return "CANCELLED" if state == "PREEMPTED" and is_final(ask_for_job(job_id) or {}) else state


def is_final(job: dict[str, str]) -> bool:
    """Whether a preempted job will not start again. job: what the controller knows.

    With PreemptMode=CANCEL, SLURM requeues no job, whatever the job allows. The controller shows a job that it has
    requeued as pending or running.
    """
    return job.get("Requeue") == "0" or job.get("JobState") == "PREEMPTED"


def _name_states(upstream: Any) -> Any:
    async def query_job_status(*arguments: Any) -> tuple[dict[str, str] | None, float | None]:
        states, duration_s = await upstream(*arguments)
        return states and {job_id: name_state(job_id, state) for job_id, state in states.items()}, duration_s

    return query_job_status


def apply() -> None:
    """Patch query_job_status, which asks sacct or squeue for the states of all jobs."""
    check_version("snakemake-executor-plugin-slurm")
    import snakemake_executor_plugin_slurm as plugin  # installed with the workflow, imported on clusters only

    written_for = "snakemake_executor_plugin_slurm.job_status_query.query_job_status(command, logger)"
    replace(plugin, "query_job_status", written_for, _name_states)
