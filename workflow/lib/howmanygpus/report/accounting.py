"""What a run's job waited for, used, and costs, from the job's own record."""

from datetime import datetime

COLUMNS = ("queue_wait_s", "device_hours", "billed_device_hours", "cost", "currency")


def to_seconds(moment: str) -> float:
    """Since 1970, of an ISO 8601 moment."""
    return datetime.fromisoformat(moment).timestamp()


def account(record: dict, billing: dict | None) -> dict:
    """Columns of one attempt, as far as they are known; none for a run that was no job.

    record: of a run or an attempt, with the `job` of SLURM that it was; billing: of its device in the machine file.
    A job counts from its start to the end of its run, in hours, for each of the run's devices; where nodes are billed,
    for every device of them. A run inside an allocation that it shares with others counts from its own start, and the
    allocation's wait is nobody's.
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
