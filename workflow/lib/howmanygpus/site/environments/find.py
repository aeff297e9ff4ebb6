"""Find the Python of an environment's record, and build the environment again if it is gone."""

import json
import os
from pathlib import Path

from howmanygpus.site.environments.build import build_environment, is_complete
from howmanygpus.site.environments.existing import write_wrapper
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


def _rebuild_horovod(ingredients: dict) -> dict:
    """Build the same wheel again and return its record. For `ingredients` see build_horovod."""
    base = build_environment(ingredients["base"], _paths(ingredients["base_pins"]))
    pins = (_paths(ingredients["tools"]), Path(ingredients["source"]))
    return build_horovod(base, *pins, ingredients["family"], ingredients["device"], len(os.sched_getaffinity(0)))


def _paths(names: list[str]) -> list[Path]:
    return [Path(name) for name in names]
