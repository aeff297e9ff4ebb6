"""How SLURM ended a job, and the command that has it end one."""

import subprocess

from howmanygpus.train.host.slurm import PATIENCE_S, ask_for_job, find_job_id

STATES = {
    "TIMEOUT": ("time_limit", "SLURM ended the job at its time limit of {TimeLimit}"),
    "DEADLINE": ("time_limit", "SLURM ended the job at its deadline"),
    "CANCELLED": ("cancelled", "the job was cancelled"),
    "PREEMPTED": ("preempted", "SLURM gave the job's nodes to another"),
    "NODE_FAIL": ("node_failed", "SLURM lost a node of the job ({NodeList})"),
    "BOOT_FAIL": ("node_failed", "SLURM could not start a node of the job ({NodeList})"),
    "OUT_OF_MEMORY": ("host_out_of_memory", "the job took more host memory than the {mem} it asked for"),
}
"""Status and reason of a run whose job SLURM ended, by the job's state.

LAUNCH_FAILED and RECONFIG_FAIL are no states. SLURM sets these flags when it requeues a job, and does not print them.
"""


def cancel(job_id: str) -> None:
    """Cancel a job; does nothing if it has ended."""
    subprocess.run(["scancel", job_id], capture_output=True, timeout=PATIENCE_S)


def explain_end() -> dict:
    """Return status and reason of a run that a signal has ended, from its job's state; empty if that does not tell."""
    job_id = find_job_id()
    return explain(ask_for_job(job_id) or {}) if job_id else {}


def explain(job: dict[str, str]) -> dict:
    """Return status and reason of a run, from its job's fields; empty for a job that SLURM did not end."""
    if job.get("JobState") not in STATES:
        return {}
    status, reason = STATES[job["JobState"]]
    memory = job.get("MinMemoryNode") or job.get("MinMemoryCPU") or "memory"
    return {"status": status, "reason": f"{reason.format(**job, mem=memory)} (job {job['JobId']})"}
