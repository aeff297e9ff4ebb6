"""What a run's job waited for, used, and costs, from the job's own record."""

from datetime import datetime

COLUMNS = ("queue_wait_s", "device_hours", "billed_device_hours", "cost", "currency")


def account(record: dict, billing: dict | None) -> dict:
    """Columns of one attempt, as far as they are known; none for a run that was no job.

    record: of a run or an attempt, with the `job` of SLURM that it was; billing: of its device in the machine file.
    A job counts from its start to the end of its run, in hours, for each of the run's devices; where nodes are billed,
    for every device of them.
    """
    job = record.get("job")
    if not job or job["started_at"] is None:
        return {}
    columns = {"queue_wait_s": job["queue_wait_s"]}
    if "finished_at" not in record or not billing:
        return columns
    hours = (datetime.fromisoformat(record["finished_at"]).timestamp() - job["started_at"]) / 3600
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
