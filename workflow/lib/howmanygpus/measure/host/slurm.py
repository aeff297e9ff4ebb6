"""
The job of SLURM in which a launcher runs.

A launcher asks SLURM nothing: the program that started it has done so, and left the answer in an environment variable.
"""

import json
import os
import re
from pathlib import Path

from howmanygpus.measure.host.placement import Placement
from howmanygpus.measure.spec import LaunchSpec

JOB = "HOWMANYGPUS_JOB"
"""Environment variable with the job as JSON; see site.jobs.ledger."""
OUT_OF_MEMORY = re.compile(
    "^s(?:run|lurm).*(?:exceeded (?:virtual )?memory limit|oom[-_]kill|Out Of Memory)", re.IGNORECASE
)
"""What slurmstepd prints when it, or the kernel for it, has killed processes that took too much memory."""


def read_job() -> dict | None:
    """Return the entry `job` of a run's record; None outside of jobs."""
    return json.loads(os.environ[JOB])["record"] if JOB in os.environ else None


def find_out_of_memory(said: Path) -> str:
    """Return slurmstepd's line about processes that took too much memory of the host; empty if there is none.

    said: file with what the processes of a run, and srun, have written to stderr; it may be missing.
    """
    text = said.read_text(encoding="utf-8", errors="replace") if said.exists() else ""
    return next((line.strip() for line in text.splitlines() if OUT_OF_MEMORY.search(line)), "")


def restore_environment(spec: LaunchSpec, placement: Placement) -> dict[str, str]:
    """Return the variables by which mpirun finds the nodes of its job, which were removed from the job's environment.

    See howmanygpus.invocation.executor for the reason.
    """
    job = json.loads(os.environ[JOB])
    nodes = ",".join(job["nodes"][: spec.num_nodes])
    each = str(spec.devices_per_node) + (f"(x{spec.num_nodes})" if spec.num_nodes > 1 else "")
    return {
        **dict.fromkeys(("SLURM_NODELIST", "SLURM_JOB_NODELIST"), nodes),
        **dict.fromkeys(("SLURM_NNODES", "SLURM_JOB_NUM_NODES"), str(spec.num_nodes)),
        **{"SLURM_JOBID": job["record"]["id"], "SLURM_TASKS_PER_NODE": each},
        "PRTE_MCA_plm_slurm_args": " ".join(placement.describe_step(spec.devices_per_node)),
    }
