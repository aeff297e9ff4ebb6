"""Find the Python of an environment's record and what launches it; build the environment again if it is gone."""

import json
import os
import sys
from pathlib import Path

from howmanygpus.site.environments.build import build_environment, is_complete
from howmanygpus.site.environments.existing import split_step, starts_container, write_wrapper
from howmanygpus.site.environments.horovod import build_horovod


def resolve_python(record: Path) -> str:
    """Return the environment's Python.

    An environment that is gone from the cache, or that a killed process has built in part, is built again from the same
    pins. While another process builds it, this one waits.
    """
    environment = json.loads(Path(record).read_text())
    if "existing" in environment:
        # An older version may have written another one.
        write_wrapper(Path(environment["python"]), environment["existing"])
        return environment["python"]
    if is_complete(environment["python"]):
        return environment["python"]
    horovod = environment.get("horovod")
    if horovod and not Path(horovod["wheel"]).exists():
        horovod = _rebuild_horovod(horovod["ingredients"])
    return build_environment(environment["name"], _paths(environment["pins"]), horovod)["python"]


def find_launcher(record: Path, placement: dict) -> tuple[str, dict]:
    """Return the Python that launches processes in an environment, and the placement with which it does so.

    In a job of SLURM, srun starts the processes. If the environment's Python is in a container, srun is outside of it:
    then this Python launches, and srun starts the container on each node.
    """
    python, environment = resolve_python(record), json.loads(Path(record).read_text())
    given = environment.get("existing", {}).get("python", "")
    if placement.get("scheduler", "none") == "none" or not starts_container(given):
        return python, placement
    placement = placement | {"python": [python], "python_version": environment.get("python_version")}
    if step := split_step(given):
        placement["container_options"], placement["python"] = step
    return sys.executable, placement


def _rebuild_horovod(ingredients: dict) -> dict:
    """Build the same wheel again and return its record. For `ingredients` see build_horovod."""
    base = build_environment(ingredients["base"], _paths(ingredients["base_pins"]))
    pins = (_paths(ingredients["tools"]), Path(ingredients["source"]))
    return build_horovod(base, *pins, ingredients["family"], ingredients["device"], len(os.sched_getaffinity(0)))


def _paths(names: list[str]) -> list[Path]:
    return [Path(name) for name in names]
