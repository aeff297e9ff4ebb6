"""How long a run's job waited, the device-hours it used, and their cost."""

from datetime import datetime

COLUMNS = ("queue_wait_s", "device_hours", "billed_device_hours", "cost", "currency")


def to_seconds(moment: str) -> float:
    """Seconds since 1970 of a moment in ISO 8601."""
    return datetime.fromisoformat(moment).timestamp()


def account(record: dict, billing: dict | None) -> dict:
    """Return those of COLUMNS that are known; none if the run was not a job.

    record: the record of a run or an attempt. billing: prices of its device, from the machine file. Time counts from
    the start of the job to the end of the run, for each of the run's devices; if nodes are billed, for all devices of
    its nodes. If the run shared an allocation with others, time counts from the start of the run, and it has no
    queue_wait_s, since the allocation waited for all of them.
    """
    job = record.get("job")
    if not job or job["started_at"] is None:
        return {}
    packed = job.get("packed", False)
    columns = {} if packed else {"queue_wait_s": job["queue_wait_s"]}
    if "finished_at" not in record or not billing:
        return columns
    started = to_seconds(record["started_at"]) if packed else job["started_at"]
    hours = (to_seconds(record["finished_at"]) - started) / 3600
    num_gpus, num_nodes = record["spec"]["num_gpus"], record["spec"]["num_nodes"]
    whole_nodes = num_nodes * billing["devices_per_node"]
    by_node = billing["billed"] == "node"
    columns |= {
        "device_hours": hours * num_gpus,
        "billed_device_hours": hours * (whole_nodes if by_node else num_gpus),
    }
    if billing["price_per_hour"] is not None:
        units = num_nodes if by_node else num_gpus
        columns |= {"cost": hours * units * billing["price_per_hour"], "currency": billing["currency"]}
    return columns
