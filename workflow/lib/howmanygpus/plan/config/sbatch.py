"""Refuses options of sbatch in a machine file that would fail at each submission."""

import re
import shlex

from howmanygpus.plan.config.errors import refuse

KEYS = {
    "quality of service": "use `qos`",
    "partition": "use `partition`",
    "node constraints": "use `constraint`",
    "memory": "use `memory_per_device_mb`",
    "CPUs per task": "use `cores_per_device`",
    "generic resources (GRES)": "use `request`, such as gpu:a100:{n}",
    "GPU allocation": "use `request`, such as --gpus-per-node={n}",
    "runtime/time limit": "use `time_limit_min` of the study",
    "account": "use `slurm_account` among the default-resources of the profile",
}
"""Key or option to use instead, by the plugin's name of what an option sets."""


def check_sbatch_options(options: dict, place: str) -> None:
    """Raise ConfigError for options that no shell can read, or that Snakemake's executor plugin sets itself.

    options: the keys of a device in the machine file.
    """
    for key in ("sbatch_options", "request"):
        given = options[key] or ""
        if key == "sbatch_options" or given.startswith("-"):
            _check(given, f"{place}.{key}")


def _check(given: str, place: str) -> None:
    if not given:
        return
    try:
        shlex.split(given)
    except ValueError as error:
        problem = str(error)[0].lower() + str(error)[1:]
        raise refuse(place, given, f"cannot be split into words: {problem}", "close the quote") from None
    # The plugin takes long to import, and few machine files need it here.
    from snakemake_executor_plugin_slurm.validation import get_forbidden_slurm_options

    for pattern, what in get_forbidden_slurm_options().items():
        if found := re.search(pattern, f"{given} "):
            problem = f"has {found[0].rstrip(' =')}, which Snakemake's SLURM plugin sets itself"
            raise refuse(place, given, problem, KEYS.get(what, "leave it out"))
