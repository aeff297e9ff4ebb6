"""Names the record of each environment; the name contains the hash of what is installed there."""

import json
from functools import cache

from howmanygpus.clone import LIBRARY
from howmanygpus.site.environments.horovod_edits import describe_edits
from howmanygpus.site.environments.pins import (
    HOROVOD_SOURCE,
    hash_requirements,
    list_horovod_tools,
    list_pin_files,
    resolve_horovod_base,
)
from howmanygpus.study.invalidation.syntax import hash_files

BUILDER = LIBRARY / "howmanygpus" / "site" / "environments" / "horovod.py"
EXISTING: dict[str, dict] = {}
"""Existing interpreters that replace environments, by the environment's name; see use_existing."""


def use_existing(environments: dict[str, dict]) -> None:
    """Use existing interpreters instead of building environments. Each has the keys `python` and `modules`."""
    EXISTING.clear()
    EXISTING.update(environments)
    hash_pins.cache_clear()


@cache
def hash_pins(environment: str) -> str:
    """Return the hash of what determines an environment: its pins and, if one replaces it, the interpreter."""
    paths, more = list_pin_files(environment), []
    if resolve_horovod_base(environment):
        paths += [*list_horovod_tools(environment), HOROVOD_SOURCE]
        more += [json.dumps(describe_edits()), hash_files([BUILDER])]
    if environment in EXISTING:
        more.append(json.dumps(EXISTING[environment], sort_keys=True))
    return hash_requirements(paths, *more)[:8]


def environment_record(environment: str) -> str:
    """Return the path of an environment's record. If the pins change, so does the path."""
    return f"results/environments/{environment}-{hash_pins(environment)}.json"
