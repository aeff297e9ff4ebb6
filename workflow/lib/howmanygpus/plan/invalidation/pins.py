"""The record of each environment, whose name has the hash of what is installed there."""

import json
from functools import cache
from pathlib import Path

from howmanygpus.environments.horovod_edits import describe_edits
from howmanygpus.environments.pins import (
    HOROVOD_SOURCE,
    find_horovod_base,
    find_horovod_tools,
    find_pins,
    hash_requirements,
)
from howmanygpus.plan.invalidation.syntax import hash_files

BUILDER = Path("workflow/lib/howmanygpus/environments/horovod.py")
EXISTING: dict[str, dict] = {}
"""Interpreters of the machine file that take the place of environments, by environment; see use_existing."""


def use_existing(environments: dict[str, dict]) -> None:
    """Use interpreters that exist instead of building environments: each is a `python` and its `modules`."""
    EXISTING.clear()
    EXISTING.update(environments)
    hash_pins.cache_clear()


@cache
def hash_pins(environment: str) -> str:
    """Hash of what decides the content of an environment: its pins, or the interpreter that takes its place."""
    paths, more = find_pins(environment), []
    if find_horovod_base(environment):
        paths += [*find_horovod_tools(environment), HOROVOD_SOURCE]
        more += [json.dumps(describe_edits()), hash_files([BUILDER])]
    if environment in EXISTING:
        more.append(json.dumps(EXISTING[environment], sort_keys=True))
    return hash_requirements(paths, *more)[:8]


def environment_record(environment: str) -> str:
    """Path of an environment's record; other pins are another file."""
    return f"results/environments/{environment}-{hash_pins(environment)}.json"
