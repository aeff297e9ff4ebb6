"""
Patch: squeue shows which run each job is.

The plugin gives all jobs of a call the same name, a random identifier. With the patch, the name begins with what the
job does, such as `jax_sharding_gpus4` or `prepare_dataset`, and ends with the identifier. The plugin's report of
efficiency asks for all names that it has given. A call with many thousands of runs gives a few hundred names at most,
because runs that differ in batch size or repeat share one.

Upstream: one name for all jobs is intended, https://github.com/snakemake/snakemake-executor-plugin-slurm/issues/17 and
issue 407 ask for others. The job's comment has rule and wildcards, but squeue does not print it by default.
Tested with snakemake-executor-plugin-slurm 2.8.0 and SLURM 22.05.
"""

import re
from collections import defaultdict
from typing import Any

from howmanygpus.snakemake_patches.patching import check_version, replace

NAMES: dict[str, set[str]] = defaultdict(set)
"""The names that this process has given to jobs, by the identifier of the call."""
RUN = re.compile(r"[^/]+/(?P<framework>[^/]+)/.*_(?P<devices>gpus\d+(?:_nodes\d+)?)_")
"""The path of a run below results/runs/: study, framework, variant, and the cell with its devices and nodes."""


def describe_job(job: Any) -> str:
    """Return the name that squeue shows for a job: framework and devices of a run, rule and device of others."""
    wildcards = getattr(job, "wildcards_dict", {})
    if found := RUN.match(wildcards.get("run", "")):
        return f"{found['framework']}_{found['devices']}"
    words = [getattr(job, "name", "group"), wildcards.get("device", "")]
    return re.sub(r"[^\w-]", "_", "_".join(filter(None, words)))


def list_names(call: str) -> str:
    """Return the names of a call's jobs, as squeue and sacct take them; the identifier before the first job."""
    return ",".join(sorted(NAMES[call])) or call


def _name_jobs(upstream: Any) -> Any:
    def get_submit_command(job: Any, params: dict, **options: Any) -> str:
        call = params["run_uuid"]
        name = f"{describe_job(job)}_{call}"
        NAMES[call].add(name)
        return upstream(job, params | {"run_uuid": name}, **options)

    return get_submit_command


def _ask_for_all(upstream: Any) -> Any:
    return lambda call, *others: upstream(list_names(call), *others)


def apply() -> None:
    """Patch get_submit_command, which names a job, and the function that asks SLURM for jobs of a name."""
    check_version("snakemake-executor-plugin-slurm")
    import snakemake_executor_plugin_slurm as plugin  # installed with the workflow, imported on clusters only
    from snakemake_executor_plugin_slurm import efficiency_report

    place = "snakemake_executor_plugin_slurm"
    written_for = f"{place}.submit_string.get_submit_command(job, params, settings, failed_nodes, array_job)"
    replace(plugin, "get_submit_command", written_for, _name_jobs)
    written_for = f"{place}.efficiency_report.get_sacct_data(run_uuid, logger)"
    replace(efficiency_report, "get_sacct_data", written_for, _ask_for_all)
