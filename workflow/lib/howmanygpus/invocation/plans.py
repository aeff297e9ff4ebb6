"""Leaves the plan of each study for the job that writes it, so that only the process that decides plans."""

import hashlib
import json
from functools import cache
from pathlib import Path

from howmanygpus.config.schema import drop_defaults
from howmanygpus.files import write_json_atomic
from howmanygpus.invocation.available import list_stale
from howmanygpus.paths import STATE
from howmanygpus.study.plan import Plan
from howmanygpus.study.study import NESTED_KEYS, Study

PLANS = STATE / "plans"
"""Folder in which the deciding process leaves the plans for the jobs of a call, one file for each study."""


def find_file(study: str) -> str:
    """Return the file in which leave_plans writes the plan of a study."""
    return str(PLANS / f"{study}.json")


@cache
def _describe(study: Study) -> dict:
    return study.describe()


def describe_plan(study: Study) -> dict:
    """Return the content of results/plans/{study}.json."""
    return _describe(study) | {"stale": list_stale(study.name)}


def hash_plan(plan: Plan, study: str) -> str:
    """Return the hash of the content that leave_plans writes, apart from defaults of the config.

    A new key with a default therefore makes no table again. The hash does not depend on the places of the user's files
    either, whose contents rerun what they affect.
    """
    described = describe_plan(plan.studies[study])
    defaults = described.pop("defaults")
    different = {"config": drop_defaults(described["config"], defaults, NESTED_KEYS)}
    text = json.dumps(described | different, sort_keys=True)
    for path, name in plan.studies[study].places.items():
        text = text.replace(json.dumps(path), json.dumps(name))
    return hashlib.sha256(text.encode()).hexdigest()


def leave_plans(plan: Plan) -> None:
    PLANS.mkdir(parents=True, exist_ok=True)
    for name, study in plan.studies.items():
        write_json_atomic(Path(find_file(name)), describe_plan(study))
