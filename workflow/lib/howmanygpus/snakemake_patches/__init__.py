"""Patches of Snakemake and of its executor plugin for SLURM, one file each."""

from howmanygpus.snakemake_patches.plugin import forget_requests, mend_planning, mend_plugin, mend_scheduler


def patch_every_process(is_job: bool) -> None:
    """Call when the workflow is read, in Snakemake itself and in the jobs it submits."""
    mend_planning()
    if is_job:
        forget_requests()


def patch_scheduling(submits: bool) -> None:
    """Call before jobs start. submits: whether jobs go to SLURM."""
    mend_scheduler()
    if submits:
        mend_plugin()
