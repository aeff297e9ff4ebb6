"""
Patch: a job has a name of its own in SLURM, such as pytorch_ddp-gpus4-batch64-repeat1-digits.

The plugin gives all jobs of a call the same name, a prefix and a UUID, and asks SLURM for the states of all jobs with
this name. squeue then shows one word for every job, and only the comment tells them apart. With the patch, the plugin
asks for the states of all jobs of this user; it looks up its own jobs by their ids.

No result depends on this patch. It stays because an administrator or a user who looks at the queue sees what runs.

Upstream: https://github.com/snakemake/snakemake-executor-plugin-slurm/issues/17 is closed, and
https://github.com/snakemake/snakemake-executor-plugin-slurm/issues/407 led to the prefix.
Tested with snakemake-executor-plugin-slurm 2.8.0 and SLURM 22.05.
"""

import getpass
import shlex
from collections.abc import Callable
from typing import Any

from howmanygpus.snakemake_patches.patching import check_version, replace


def name_job(rule: str, wildcards: dict[str, str]) -> str:
    """Return a short name of a job. What most tells the runs of a study apart comes first, since squeue cuts names."""
    if "run" not in wildcards:
        return "-".join([rule, *wildcards.values()]).replace("/", "-")
    study, framework, variant, cell = wildcards["run"].split("/")
    layout = cell.partition("_gpus")[2].replace("_", "-")
    return "-".join([framework, *([] if variant == "base" else [variant]), f"gpus{layout}", study])


def _name_each_job(upstream: Any) -> Any:
    def get_submit_command(job: Any, params: dict, *arguments: Any, **options: Any) -> str:
        name = name_job(job.name, dict(getattr(job, "wildcards_dict", {})))
        return upstream(job, params | {"run_uuid": name}, *arguments, **options)

    return get_submit_command


def _ask_by_user(upstream: Any) -> Callable[[str], str]:
    def query_job_status(runid: str) -> str:
        command = shlex.split(upstream(runid))
        place = command.index("--name")
        return shlex.join([*command[:place], "--user", getpass.getuser(), *command[place + 2 :]])

    return query_job_status


def apply() -> None:
    """Patch get_submit_command, and the functions that write the commands for sacct and squeue."""
    check_version("snakemake-executor-plugin-slurm")
    import snakemake_executor_plugin_slurm as plugin  # installed with the workflow, imported on clusters only

    package = "snakemake_executor_plugin_slurm"
    parameters = "job, params, settings, failed_nodes, array_job"
    replace(plugin, "get_submit_command", f"{package}.submit_string.get_submit_command({parameters})", _name_each_job)
    for name in ("query_job_status_sacct", "query_job_status_squeue"):
        replace(plugin, name, f"{package}.job_status_query.{name}(runid)", _ask_by_user)
