"""The basis of decisions on further runs: how each run of a study ended, its rate, and the hours of its jobs."""

import json
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from howmanygpus.paths import ATTEMPTS, RUNS
from howmanygpus.report import accounting
from howmanygpus.report.outcomes import list_changes
from howmanygpus.report.tables.jobs import count_hours, describe_job
from howmanygpus.report.tables.runs import describe_timing

UNREADABLE = "unreadable"
NO_FAILURES = ("running", "cancelled", "interrupted")
"""Statuses of attempts that are running, or that the user ended."""


def read_ended(
    runs: Iterable[str], find_spec: Callable[[str], dict], defaults: dict, since: str, results: Path = Path()
) -> Iterator[tuple[str, str, float | None, bool]]:
    """Yield path, status and images per second of each run that ended, or that has a recent failed attempt.

    The last value says whether it ended.

    runs: paths. find_spec: returns the planned specification of a run that exists. since: the earliest start of such an
    attempt, as in the names of the attempts' folders. results: the folder that holds `results/`. A run that was done
    with other settings has not ended. Records are not checked against their schema, because that would take longer than
    everything else here.
    """
    for path in runs:
        if not Path(f"{results}/{RUNS}/{path}/run.json").exists():
            if status := _read_failure(f"{results}/{ATTEMPTS}/{path}", since):
                yield path, status, None, False
            continue
        folder = results / RUNS / path
        try:
            record = json.loads((folder / "run.json").read_text())
            if not list_changes(find_spec(path), record, defaults):
                yield path, record["status"], _read_rate(record, folder), True
        except (ValueError, KeyError, FileNotFoundError):
            yield path, UNREADABLE, None, True


def _read_rate(record: dict, folder: Path) -> float | None:
    if record["status"] != "completed":
        return None
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    return describe_timing(record, events).get("images_per_s")


def _read_failure(attempts: str, since: str) -> str:
    """Return the status of the last attempt at a run that began at a moment or later; empty if there is none."""
    for path in sorted(Path(attempts).glob("*/attempt.json"), reverse=True):
        status = json.loads(path.read_text())["status"] if path.parent.name >= since else "cancelled"
        if status not in NO_FAILURES:
            return status
    return ""


def _count_until_now(record: dict) -> float:
    """Return the seconds for which a running job has had its devices, without its waits for other jobs."""
    now = datetime.now(UTC).timestamp()
    if "held_s" not in record:
        return max(0.0, now - accounting.to_seconds(record["started_at"]))
    return record["held_s"] + max(0.0, now - (record["holding_since"] or now))


def sum_device_hours(jobs: dict[str, dict], billing: dict[str, dict]) -> float:
    """Return the device-hours of some jobs as they are billed, or as they were used if nothing is billed.

    jobs: records by path, see howmanygpus.site.jobs.ledger. billing: prices by device, from the machine file. A job
    that is running counts until now. One that ended at an unknown time does not count.
    """
    hours, total = count_hours(jobs), 0.0
    for path, record in jobs.items():
        used = hours.get(path)
        if used is None and record["status"] == "running":
            used = _count_until_now(record) / 3600
        row = describe_job(path, record, used, billing.get(record["device"]))
        total += row.get("billed_device_hours", row.get("device_hours", 0.0))
    return total
