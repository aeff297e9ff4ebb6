"""What became of each planned run: its record, or its last attempt, or nothing yet."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

RUNS, ATTEMPTS = Path("results/runs"), Path("results/attempts")
IDENTITY = (
    *("study", "dataset", "model", "framework", "variant", "input", "precision", "device", "num_nodes", "num_gpus"),
    *("per_device_batch_size", "global_batch_size", "repeat", "seed"),
)
"""Columns that name one run."""


@dataclass(frozen=True)
class Outcome:
    """One planned run.

    path: of the run below results/runs/; record: its run.json, or that of its last attempt, or None without either;
    has_run: whether the record is of a finished run.
    """

    path: str
    identity: dict
    status: str
    reason: str
    record: dict | None
    has_run: bool
    folder: Path

    @property
    def was_trained(self) -> bool:
        """Whether it has evaluations: a run that diverged has those before it did."""
        return self.has_run and self.status in ("completed", "diverged")

    def read_events(self) -> list[dict]:
        return [json.loads(line) for line in (self.folder / "events.jsonl").read_text().splitlines()]


def read_outcomes(plan: dict, results: Path = Path()) -> Iterator[Outcome]:
    """Every planned run. plan: the content of results/plans/{study}.json; results: the folder with `results`."""
    for path, planned in plan["runs"].items():
        identity = {key: planned["spec"][key] for key in IDENTITY}
        folder = results / RUNS / path
        found = _read_outcome(planned, plan["defaults"], folder, results / ATTEMPTS / path)
        yield Outcome(path, identity, *found, folder)


def _read_outcome(planned: dict, defaults: dict, folder: Path, attempts: Path) -> tuple[str, str, dict | None, bool]:
    """(status, reason, record, has_run)."""
    if planned["unsupported"]:
        return "unsupported", planned["unsupported"], None, False
    if not (folder / "run.json").exists():
        record = _read_last_attempt(attempts)
        return ("missing", "not run yet", None, False) if record is None else (*describe_attempt(record), record, False)
    record = json.loads((folder / "run.json").read_text())
    # A run that is older than a key of the config did what the key's default says.
    was = defaults | record["spec"]
    if changed := [key for key, value in planned["spec"].items() if was.get(key) != value]:
        return "stale", f"was run with another {', '.join(sorted(changed))}", record, True
    return record["status"], record["reason"], record, True


def _read_last_attempt(folder: Path) -> dict | None:
    records = sorted(folder.glob("*/attempt.json"))
    return json.loads(records[-1].read_text()) if records else None


def describe_attempt(record: dict) -> tuple[str, str]:
    """Status and reason of a run that has no record, from its last attempt's.

    An attempt without an end is running: train.start.settling has completed the records of the others.
    """
    if record["status"] != "running":
        return record["status"], record["reason"]
    if record.get("job"):
        return "running", f"job {record['job']['id']} has not ended"
    return "running", f"attempt started at {record['started_at']} has not ended"
