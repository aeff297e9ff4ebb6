"""Effects of searches for the largest batch on a call: which studies wait, and which searches it gives up."""

import os
from pathlib import Path

from howmanygpus.files import write_json_atomic
from howmanygpus.site.retrying import STARTED
from howmanygpus.study.adaptive.configurations import Decision
from howmanygpus.study.largest.search import FAILED, GAVE_UP, read_found
from howmanygpus.study.plan import Plan

WAITS = "decided later: when the largest batches that fit are known"
NO_RECORD = "its job left no record; see results/logs/search_batch_size/{name}.log"


def list_waiting(plan: Plan) -> set[str]:
    """Return the studies with a batch size that is not known yet. Their runs have placeholders instead."""
    return {study.name for study in plan.studies.values() if study.largest and study.largest.is_open}


def postpone_runs(plan: Plan) -> dict[str, Decision]:
    """Return a decision for each study that waits for searches: all its runs are decided later."""
    return {name: Decision(later=dict.fromkeys(_list_runs(plan, name), WAITS)) for name in list_waiting(plan)}


def _list_runs(plan: Plan, study: str) -> list[str]:
    return [run.path for run in plan.studies[study].runs if not run.unsupported and not plan.is_left_out(run)]


def list_numbers(plan: Plan) -> frozenset[str]:
    """Return the numbers that this plan takes from searches, as texts that differ if a number does."""
    return frozenset(
        f"{study.name} {series} {size.number}"
        for study in plan.studies.values()
        if study.largest
        for series, size in study.largest.sizes.items()
        if size.limit not in ("open", GAVE_UP)
    )


def record_failed_searches(plan: Plan) -> None:
    """Note the searches that this call could not do, for example because an environment cannot be built.

    A further pass continues with the rest of their studies, and a later call tries them again.
    """
    for name, (search, _) in plan.searches.items():
        if read_found(search.record) is None:
            record = {"bound": search.bound, "call": os.environ.get(STARTED, ""), "largest": 0, "limit": GAVE_UP}
            path = Path(search.record).with_suffix(FAILED)
            path.parent.mkdir(parents=True, exist_ok=True)
            write_json_atomic(path, record | {"reason": NO_RECORD.format(name=name), "tries": []})
