"""
Patch: a job starts Snakemake once.

The plugin has each job start Snakemake with the executor `slurm-jobstep`, which starts Snakemake again to run the job's
command. The second one serves array jobs, and jobs whose command must run inside a step of srun. The jobs of this
project start srun or mpirun themselves (resource `mpi`, see howmanygpus.plan.jobs), so one Snakemake suffices.
The plugin's first Snakemake also removes from the environment what the job asked sbatch for; `forget_requests` does so
in its place.

No result depends on this patch. It stays because a job's devices are allocated and idle while Snakemake starts: a job
took 3 s beyond its work with the patch and 5 s without it (medians of 6 jobs each, in turn, files on a local disk).

    .venv/bin/python benchmarks/slurm_cost.py --patch one_snakemake

Upstream: https://github.com/snakemake/snakemake-executor-plugin-slurm/issues/400
Tested with snakemake-executor-plugin-slurm 2.8.0 and snakemake-executor-plugin-slurm-jobstep 0.6.1.
"""

import os
from typing import Any

from howmanygpus.snakemake_patches.patching import check_version, replace

KEPT = ("SLURM_JOB_ID", "SLURM_JOBID", "SLURM_ARRAY_", "SLURM_CLUSTER_NAME", "SLURM_SUBMIT_", "SLURM_CONF")
"""Prefixes of the variables that a job keeps: its identity, and where SLURM is configured."""


def forget_requests() -> None:
    """Remove from a job's environment what it asked sbatch for: each srun and mpirun in it would ask for the same."""
    for name in list(os.environ):
        if name.startswith(("SLURM_", "SRUN_", "SBATCH_")) and not name.startswith(KEPT):
            del os.environ[name]


def _name_no_executor(upstream: Any) -> Any:
    def additional_general_args(executor: Any) -> str | list[str]:
        # An array job finds its own command through the second Snakemake.
        return upstream(executor) if executor.array_jobs else []

    return additional_general_args


def apply() -> None:
    """Patch Executor.additional_general_args, the options of the Snakemake that a job starts."""
    check_version("snakemake-executor-plugin-slurm")
    check_version("snakemake-executor-plugin-slurm-jobstep")
    import snakemake_executor_plugin_slurm as plugin  # installed with the workflow, imported on clusters only

    written_for = "snakemake_executor_plugin_slurm.Executor.additional_general_args(self)"
    replace(plugin.Executor, "additional_general_args", written_for, _name_no_executor)
