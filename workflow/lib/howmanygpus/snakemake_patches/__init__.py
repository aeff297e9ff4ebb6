"""
Patches of Snakemake and of its executor plugin for SLURM, one file each.

docs/upstream.md describes each problem for the maintainers, with a minimal example.
"""

from howmanygpus.snakemake_patches import (
    accounts,
    cancelling,
    ending,
    failing,
    interrupting,
    naming,
    one_snakemake,
    planning,
    states,
    submitting,
)


def patch_every_process(is_job: bool) -> None:
    """Apply the patches that Snakemake needs to plan. Call it when the workflow is read.

    is_job: whether this Snakemake runs inside a job that another one submitted.
    """
    planning.apply()
    interrupting.end_without_traceback()
    if is_job:
        one_snakemake.forget_requests()


def patch_scheduling(submits: bool) -> None:
    """Apply the patches that Snakemake needs to run jobs. Call it before jobs start.

    submits: whether jobs are submitted to SLURM.
    """
    interrupting.apply()
    failing.apply()
    if submits:
        for patch in (states, cancelling, accounts, naming, ending, one_snakemake, submitting):
            patch.apply()
