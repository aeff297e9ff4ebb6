"""The Python of an environment's record, wherever the environment is, and whether or not it still is."""

import json
import os
from pathlib import Path

from howmanygpus.environments.build import build_environment
from howmanygpus.environments.horovod import build_horovod


def find_python(record: Path) -> str:
    """The environment's Python; an environment that is gone from the cache is built again from the same pins."""
    environment = json.loads(Path(record).read_text())
    if os.access(environment["python"], os.X_OK) or "existing" in environment:
        return environment["python"]
    horovod = environment.get("horovod")
    if horovod and not Path(horovod["wheel"]).exists():
        horovod = _rebuild_horovod(horovod["ingredients"])
    return build_environment(environment["name"], _paths(environment["pins"]), horovod)["python"]


def _rebuild_horovod(ingredients: dict) -> dict:
    """The record of the same wheel, built again; ingredients: see build_horovod."""
    base = build_environment(ingredients["base"], _paths(ingredients["base_pins"]))
    pins = (_paths(ingredients["tools"]), Path(ingredients["source"]))
    return build_horovod(base, *pins, ingredients["family"], ingredients["device"], len(os.sched_getaffinity(0)))


def _paths(names: list[str]) -> list[Path]:
    return [Path(name) for name in names]
