"""How long a run's job waited, the device-hours it used, and their cost."""

import re
from collections.abc import Iterable
from datetime import datetime

ALLOCATED_GPUS = re.compile(r"(?:^|,)gres/gpu=(\d+)")
COLUMNS = (
    *("queue_wait_s", "device_hours", "billed_device_hours", "cost", "currency"),
    *("failed_attempts", "failed_billed_device_hours"),
)


def to_seconds(moment: str) -> float:
    """Convert a moment in ISO 8601 to seconds since 1970."""
    return datetime.fromisoformat(moment).timestamp()


def account(record: dict | None, attempts: Iterable[dict], billing: dict | None) -> dict:
    """Return the known values of COLUMNS, for a run with all its failed attempts.

    record: the record of the run, or None if it has no outcome. attempts: the records of its failed attempts. billing:
    prices of its device, from the machine file; without them hours and cost are not known. Every sum includes the bills
    of the attempts. An attempt whose end was not recorded adds nothing.
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
    job = last.get("job") or {}
    num_gpus = spec["num_gpus"]
    if not job.get("packed"):
        num_gpus = count_devices(job.get("allocated"), num_gpus, spec["num_nodes"], billing)
    columns |= {"device_hours": total * spec["num_gpus"], **bill(total, num_gpus, spec["num_nodes"], billing)}
    in_vain = bill(total - known.get(id(record), 0.0), num_gpus, spec["num_nodes"], billing)
    return columns | {"failed_billed_device_hours": in_vain["billed_device_hours"]}


def bill(hours: float, num_gpus: int, num_nodes: float, billing: dict) -> dict:
    """Return the billed device-hours of a job and, if there is a price, its cost.

    If nodes are billed, all their devices are. On nodes that jobs share, each job is billed its share of the devices.
    billing: prices of the device, from the machine file.
    """
    is_by_node, per_node = billing["billed"] == "node", billing["devices_per_node"]
    if billing.get("shared"):
        num_nodes = num_gpus / per_node
    devices = num_nodes * per_node if is_by_node else num_gpus
    billed = {"billed_device_hours": hours * devices}
    if billing["price_per_hour"] is None:
        return billed
    units = num_nodes if is_by_node else num_gpus
    return billed | {"cost": hours * units * billing["price_per_hour"], "currency": billing["currency"]}


def count_devices(allocated: str | None, num_gpus: int, num_nodes: int, billing: dict) -> int:
    """Return the number of devices that a job is billed for. allocated: the job's allocation as SLURM writes it.

    SLURM only names devices if the cluster accounts for GPUs. Otherwise a job on exclusive nodes is billed for all of
    their devices, and any other job for those that it asked for.
    """
    whole = num_nodes * billing["devices_per_node"] if billing.get("exclusive") else num_gpus
    return count_allocated(allocated) or whole


def count_allocated(allocated: str | None) -> int | None:
    """Return the number of GPUs of an allocation as SLURM writes it, such as node=1,gres/gpu=4; None if it names none.

    A job with a node of its own is given all GPUs of the node, even if it asks for fewer.
    """
    found = ALLOCATED_GPUS.search(allocated or "")
    return int(found[1]) if found else None


def measure_hours(record: dict) -> float | None:
    """Return the hours for which the devices of a run or an attempt were occupied, or None if that is not known.

    The time counts from the start of its job, or of its launcher if it shared an allocation with others. A run outside
    of jobs occupied them for its wall time only, and a failed attempt from when it had the machine to itself, because
    the launcher may first have waited for other jobs of the machine.
    """
    job: dict = record.get("job") or {}
    if not job and "wall_time_s" in record:
        return record["wall_time_s"] / 3600
    if "finished_at" not in record or (job and job["started_at"] is None):
        return None
    shared = not job or job.get("packed", False)
    if shared and record.get("held_at", "") is None:
        return 0.0
    started = to_seconds(record.get("held_at", record["started_at"])) if shared else job["started_at"]
    return (to_seconds(record["finished_at"]) - started) / 3600
