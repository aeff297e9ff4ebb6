"""The result of each planned run: the record of its outcome, else that of its last attempt, else nothing yet."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NotRequired, TypedDict

import pandas as pd

from howmanygpus.base.secrets import hide_everywhere
from howmanygpus.files import read_each
from howmanygpus.measure.around.schema import RecordError, read_record
from howmanygpus.measure.spec import MODEL_PATH_KEYS
from howmanygpus.paths import ATTEMPTS, RUNS
from howmanygpus.report.columns import FEWEST_NODES, IDENTITY
from howmanygpus.report.rows import name_count

UNDECIDED = (
    *("unsupported", "failed_parity", "missing", "not_run", "running", "stale"),
    *("interrupted", "suspended", "refused", "blocked", "cancelled", "preempted", "node_failed", "disk_full"),
)
"""Statuses that say nothing about how well a configuration trains: it was not trained, or something stopped it."""


UNSET = {
    **{"eval_batchnorm": "running", "exchange": "all", "evaluate": True},
    **{"frozen_batches": False, "reads_every_loss": False},
}
"""Values of the keys that no study can set, in all runs but controls, probes and unfair protocols."""
OVER_REPEATS = {
    **{f"images_per_s_{of}": ("images_per_s", of) for of in ("median", "min", "max")},
    **{"num_planned": ("status", "size"), "num_repeats": ("images_per_s", "count")},
    **{f"num_{outcome}": (outcome, "sum") for outcome in ("failed", "disturbed", "unsupported")},
}
"""Columns of a configuration, from those of its repeats as flag_outcomes returns them."""


class GridDecision(TypedDict):
    """Decisions of an adaptive study, as invocation.deciding.describe_decision writes them.

    runs: status and reason of each run without an outcome, by its path. probes_of: the study whose probes these are.
    spare: repeats that `repeats: auto` does not ask for. repeats_ended: why a configuration is not repeated further, as
    cause and reason of each of its repeats.
    """

    runs: dict[str, list[str]]
    budget_device_h: float | None
    probes_of: NotRequired[str]
    spare: NotRequired[list[str]]
    repeats_ended: NotRequired[dict[str, list[str]]]


@dataclass(frozen=True)
class Outcome:
    """One planned run.

    path: folder of the run below results/runs/. record: its run.json, else the attempt.json of its last attempt, else
    None. has_run: whether the record is a run.json. attempts: the records of all its failed attempts. protocol: the
    unfair protocol that the run follows, one of published.PROTOCOLS, or empty. control: what a control run leaves out,
    such as `no_exchange`, or empty.
    """

    path: str
    identity: dict
    status: str
    reason: str
    record: dict | None
    has_run: bool
    folder: Path
    attempts: tuple[dict, ...] = ()
    protocol: str = ""
    control: str = ""

    @property
    def was_trained(self) -> bool:
        """Whether the run has evaluations. A run that diverged has those before the divergence."""
        return self.has_run and self.status in ("completed", "diverged")

    def read_events(self) -> list[dict]:
        return [json.loads(line) for line in (self.folder / "events.jsonl").read_text().splitlines()]


def read_unit(study: dict) -> str:
    """Return what the batches and rates of a study count: images, or what its program counts. study: with defaults."""
    return study["program"]["unit"] if study.get("program") else "images"


def read_outcomes(plan: dict, results: Path = Path()) -> Iterator[Outcome]:
    """Yield every planned run.

    plan: content of results/plans/{study}.json. results: the folder that holds `results/`. Raises RecordError if a
    record violates its schema.
    """
    for path, planned in plan["runs"].items():
        identity = identify(plan, planned["spec"])
        folder, attempts = results / RUNS / path, read_run_attempts(results / ATTEMPTS / path)
        found = _read_outcome(planned, plan["defaults"], folder, attempts)
        known = plan.get("protocols", {}).get(path, {})
        yield Outcome(path, identity, *found, folder, attempts, known.get("protocol", ""), known.get("control", ""))


def identify(plan: dict, spec: dict) -> dict:
    """Return the columns that name a run. spec: its planned specification."""
    placement = FEWEST_NODES if plan["config"]["num_nodes"] is None else name_nodes(spec["num_nodes"])
    of_study = {"placement": placement, "unit": read_unit(plan["config"])}
    return {key: of_study[key] if key in of_study else spec[key] for key in IDENTITY}


def name_nodes(num_nodes: int) -> str:
    return name_count(num_nodes, "node")


def has_failed(statuses: pd.Series) -> pd.Series:
    """Return whether each run counts as a failure: it was tried, and did not complete for reasons of its own."""
    return ~statuses.isin(["completed", *UNDECIDED])


def flag_outcomes(runs: pd.DataFrame) -> pd.DataFrame:
    """Add columns that say whether each run failed, was disturbed, or is unsupported."""
    return runs.assign(
        failed=has_failed(runs["status"]),
        disturbed=runs["disturbed"].eq(True),
        unsupported=runs["status"] == "unsupported",
    )


def _read_outcome(
    planned: dict, defaults: dict, folder: Path, attempts: tuple[dict, ...]
) -> tuple[str, str, dict | None, bool]:
    """Return (status, reason, record, has_run)."""
    if planned["unsupported"]:
        return "unsupported", planned["unsupported"], None, False
    if not (folder / "run.json").exists():
        if not attempts:
            return "missing", "not run yet", None, False
        return *describe_attempt(attempts[-1]), attempts[-1], False
    record = _read_or_explain(folder / "run.json")
    if changed := list_changes(planned["spec"], record, defaults):
        return "stale", f"was run with another {', '.join(sorted(changed))}", record, True
    return record["status"], record["reason"], record, True


def list_changes(planned: dict, record: dict, defaults: dict) -> list[str]:
    """Return the keys in which a planned specification differs from that of an existing run. record: a run.json."""
    # A run from before a key of the config existed used its default. A user's model may have moved.
    was = defaults | UNSET | record["spec"]
    changed = [key for key, value in planned.items() if key not in MODEL_PATH_KEYS and was.get(key) != value]
    # Records have no credentials of addresses.
    return [key for key in changed if was.get(key) != hide_everywhere(planned[key])]


def read_run_attempts(folder: Path) -> tuple[dict, ...]:
    """Return the records of the attempts at a run, the oldest first. Runs that were set aside are left out."""
    return tuple(read_each(folder, "*/attempt.json", _read_or_explain))


def _read_or_explain(path: Path) -> dict:
    """Read a record. If it violates its schema, RecordError says how to have the run done again."""
    try:
        return json.loads(_read_checked(path, path.stat().st_mtime_ns))
    except RecordError as error:
        remedy = f"delete {path.parent}, and the next call of snakemake does the run again"
        raise RecordError(f"{error}; the file was edited, or another version wrote it: {remedy}") from None


@cache
def _read_checked(path: Path, changed_ns: int) -> str:
    """Return a record as JSON. A dozen tables read each record, and checking it takes longer than reading it."""
    return json.dumps(read_record(path))


def describe_attempt(record: dict) -> tuple[str, str]:
    """Return status and reason of a run without an outcome, from the record of its last attempt.

    An attempt without an end is running, because site.jobs.completing has completed the records of all attempts that
    ended without writing one.
    """
    if record["status"] != "running":
        return record["status"], record["reason"]
    if record.get("job"):
        return "running", f"job {record['job']['id']} has not ended"
    return "running", f"attempt started at {record['started_at']} has not ended"
