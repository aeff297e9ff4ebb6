"""
Patch: without `slurm_account`, a job is submitted without an account and without warnings.

The plugin then tries to guess the account from the user's last job. Its command passes `| tail -1` to sacct as
arguments, so that sacct prints "invalid option -- '1'", nothing is ever guessed, and three warnings say so at the first
job. The plugin's option `no_account` has no effect. SLURM itself knows the default account of the user.

No result depends on this patch. It stays because these are the first lines that a user of a new cluster sees.

Upstream: no issue is known; docs/upstream.md has the text of a report.
Tested with snakemake-executor-plugin-slurm 2.8.0 and SLURM 22.05.
"""

from collections.abc import Iterator
from typing import Any

from howmanygpus.snakemake_patches.patching import check_version, replace


def _guess_nothing(upstream: Any) -> Any:
    def get_account_arg(executor: Any, job: Any) -> Iterator[str]:
        if job.resources.get("slurm_account"):
            yield from upstream(executor, job)
        else:
            yield ""

    return get_account_arg


def apply() -> None:
    """Patch Executor.get_account_arg, the option of sbatch that names the account."""
    check_version("snakemake-executor-plugin-slurm")
    import snakemake_executor_plugin_slurm as plugin  # installed with the workflow, imported on clusters only

    written_for = "snakemake_executor_plugin_slurm.Executor.get_account_arg(self, job)"
    replace(plugin.Executor, "get_account_arg", written_for, _guess_nothing)
