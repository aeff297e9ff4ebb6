"""
Mends of Snakemake's executor plugin for SLURM (2.8.0).

It waits without end for two kinds of jobs that have ended: cancelled ones where the accounting database is asked, and
preempted ones that do not go back into the queue. At Ctrl-C it overlooks each job whose state it is asking for.
"""

import functools
import subprocess

from trainbench.slurm import PATIENCE_S, ask_for_job


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


def mend_plugin() -> None:
    """Have the plugin of this process see the states of its jobs through name_state, and cancel all of them."""
    import snakemake_executor_plugin_slurm as plugin  # only clusters need it

    query, cancel = plugin.query_job_status, plugin.Executor.cancel_jobs
    if hasattr(query, "__wrapped__"):
        return

    @functools.wraps(query)
    async def query_and_name(*arguments):
        states, duration_s = await query(*arguments)
        named = states and {job_id: name_state(job_id, state) for job_id, state in states.items()}
        return named, duration_s

    @functools.wraps(cancel)
    def cancel_all(executor, active_jobs):
        # All jobs of a call bear its name.
        subprocess.run(["scancel", f"--name={executor.run_uuid}"], capture_output=True, timeout=PATIENCE_S)
        cancel(executor, active_jobs)

    plugin.query_job_status, plugin.Executor.cancel_jobs = query_and_name, cancel_all
