"""How long a run's job waited, the device-hours it used, and their cost."""

from collections.abc import Iterable
from datetime import datetime

COLUMNS = (
    *("queue_wait_s", "device_hours", "billed_device_hours", "cost", "currency"),
    *("failed_attempts", "failed_billed_device_hours"),
)


def to_seconds(moment: str) -> float:
    """Seconds since 1970 of a moment in ISO 8601."""
    return datetime.fromisoformat(moment).timestamp()


def account(record: dict | None, attempts: Iterable[dict], billing: dict | None) -> dict:
    """Return those of COLUMNS that are known, for a run with all its failed attempts.

    record: the record of the run, or None if it has no outcome. attempts: the records of its failed attempts. billing:
    prices of its device, from the machine file; without them nothing is known of hours and cost. What the attempts
    were billed is part of every sum. An attempt whose end nobody recorded adds nothing.
    """
    failed = [attempt for attempt in attempts if attempt["status"] != "running"]
    last = record or (failed[-1] if failed else {})
    columns: dict = {"failed_attempts": len(failed)}
    if (job := last.get("job")) and job["started_at"] is not None and not job.get("packed", False):
        columns["queue_wait_s"] = job["queue_wait_s"]
    if not billing:
        return columns
    records = [*failed, *([record] if record else [])]
    known = {id(each): hours for each in records if (hours := measure_hours(each)) is not None}
    if not known:
        return columns
    spec, total = last["spec"], sum(known.values())
    devices = count_billed_devices(spec, billing)
    columns |= {"device_hours": total * spec["num_gpus"], "billed_device_hours": total * devices}
    columns["failed_billed_device_hours"] = (total - known.get(id(record), 0.0)) * devices
    if billing["price_per_hour"] is not None:
        units = spec["num_nodes"] if billing["billed"] == "node" else spec["num_gpus"]
        columns |= {"cost": total * units * billing["price_per_hour"], "currency": billing["currency"]}
    return columns


def count_billed_devices(spec: dict, billing: dict) -> int:
    """Count the devices of a run or, if nodes are billed, all devices of its nodes."""
    if billing["billed"] == "node":
        return spec["num_nodes"] * billing["devices_per_node"]
    return spec["num_gpus"]


def measure_hours(record: dict) -> float | None:
    """Return the hours for which the devices of a run or an attempt were occupied, or None if that is not known.

    They count from the start of its job. If it shared an allocation with others, or was no job, they count from the
    start of its launcher.
    """
    job: dict = record.get("job") or {}
    if "finished_at" not in record or (job and job["started_at"] is None):
        return None
    shared = not job or job.get("packed", False)
    started = to_seconds(record["started_at"]) if shared else job["started_at"]
    return (to_seconds(record["finished_at"]) - started) / 3600
