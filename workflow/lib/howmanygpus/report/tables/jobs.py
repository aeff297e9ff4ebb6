"""
Every job that used devices: its purpose, how long it had them, and its bill.

`hours` are counted as `counted_by` says: by SLURM, which counts from before a job's program starts until after it ends,
or by the job itself, without its waits for other jobs of the machine. Runs, failed attempts and superseded runs have
the name of their run. Any other job that serves several studies has a row in each, with the study's share of its hours.
`study` is empty for those of an older version. Jobs inside a packed allocation are not billed, because the allocation
itself is.
"""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import PurePath

import pandas as pd

from howmanygpus.report import accounting

READS = ("ledger",)
IS_MERGED = True
CATEGORY = "Time and price"
RUN, ALLOCATION = "run", "allocation"
SEARCH = "batch_search"
KINDS_OF_FRAMEWORKS = ("gate", SEARCH)
"""Kinds of jobs that serve all studies with their framework. A search only serves those that ask for the largest."""
LARGEST = "max"
COLUMNS = (
    *("study", "kind", "status", "name", "job_id", "device", "num_gpus", "num_nodes", "nodes", "started_at"),
    *("hours", "counted_by", "device_hours", "billed_device_hours", "cost", "currency", "record"),
)


def tabulate(plan: dict, ledger: dict[str, dict]) -> pd.DataFrame:
    """One row per job, and one per packed allocation. ledger: records by path, see howmanygpus.site.jobs.ledger."""
    specs = [planned["spec"] for planned in plan["runs"].values()]
    devices, frameworks = ({spec[key] for spec in specs} for key in ("device", "framework"))
    hours = count_hours(ledger)
    own = [
        describe_job(path, record, hours.get(path), plan["billing"].get(record["device"]), plan["study"])
        for path, record in ledger.items()
        if (plan["study"] in record["shares"] if "shares" in record else is_of_study(record, plan, devices, frameworks))
    ]
    rows = [*own, *describe_allocations(ledger, devices, plan["billing"])]
    return pd.DataFrame(rows, columns=list(COLUMNS)).sort_values("started_at", kind="stable")


def is_of_study(record: dict, plan: dict, devices: set[str], frameworks: set[str]) -> bool:
    """Return whether a job without shares is in the bill of a study: a run, a probe, or a job of an older version."""
    return (
        record["device"] in devices
        and (record["kind"] != RUN or record["name"].startswith(f"{plan['study']}/"))
        and (record["kind"] not in KINDS_OF_FRAMEWORKS or record["framework"] in frameworks)
        and (record["kind"] != SEARCH or asks_for_largest(plan["config"]))
    )


def asks_for_largest(config: dict) -> bool:
    """Say whether a study has runs with the largest batch that fits. config: the study's."""
    sizes = config.get("per_device_batch_size", [])
    return LARGEST in (sizes if isinstance(sizes, list) else [sizes])


def describe_job(path: str, record: dict, hours: float | None, billing: dict | None, study: str = "") -> dict:
    """Return the row of one job.

    billing: prices of its device, from the machine file, if there are any. study: the study whose bill a job with
    shares is in.
    """
    job = record.get("job") or {}
    row = {key: record[key] for key in ("kind", "status", "name", "device", "num_gpus", "num_nodes", "started_at")}
    row |= {"study": PurePath(record["name"]).parts[0] if record["kind"] == RUN else None, "record": path}
    row |= {"job_id": job.get("id"), "nodes": job.get("nodes") or record["hostname"]}
    if study in record.get("shares", {}):
        row["study"] = study
        hours = None if hours is None else hours * record["shares"][study]
    if hours is None:
        return row
    counted_by = "SLURM" if is_counted(record) else "job"
    row |= {"hours": hours, "counted_by": counted_by, "device_hours": hours * record["num_gpus"]}
    if billing and not job.get("packed"):
        told = read_allocated(record)
        num_gpus = accounting.count_devices(told, record["num_gpus"], record["num_nodes"], billing)
        row |= accounting.bill(hours, num_gpus, record["num_nodes"], billing)
    return row


def describe_allocations(ledger: dict[str, dict], devices: set[str], billing: dict) -> Iterator[dict]:
    """Yield a row for each packed allocation with a job on one of the devices.

    An allocation has all its devices all the time.
    """
    packed = [record for record in ledger.values() if record.get("job", {}).get("packed")]
    for job_id in dict.fromkeys(record["job"]["id"] for record in packed):
        records = [record for record in packed if record["job"]["id"] == job_id]
        last = max(records, key=lambda record: record.get("counted", {}).get("elapsed_s", 0.0))
        prices = billing.get(last["device"])
        if last["device"] not in devices or prices is None or "counted" not in last:
            continue
        hours, num_nodes = last["counted"]["elapsed_s"] / 3600, last["num_nodes"]
        num_gpus = accounting.count_allocated(read_allocated(last)) or num_nodes * prices["devices_per_node"]
        has_ended = last["counted"]["has_ended"]
        yield {
            **{"kind": ALLOCATION, "status": "ended" if has_ended else "running", "name": f"allocation {job_id}"},
            **{"job_id": job_id, "device": last["device"], "num_gpus": num_gpus, "num_nodes": num_nodes},
            **{"nodes": last["job"]["nodes"], "started_at": min(record["started_at"] for record in records)},
            **{"hours": hours, "counted_by": "SLURM", "record": f"allocation {job_id}"},
            **accounting.bill(hours, num_gpus, num_nodes, prices),
        }


def count_hours(ledger: dict[str, dict]) -> dict[str, float]:
    """Return the hours for which each job had its devices, by path. Jobs whose end is not known are left out.

    A job of SLURM has several records if Snakemake tried its step again inside it. The records share its time.
    """
    shared: dict[tuple, list[str]] = {}
    for path, record in ledger.items():
        job = record.get("job") or {}
        key = (job["id"], job["started_at"]) if has_own_allocation(record) else (path,)
        shared.setdefault(key, []).append(path)
    hours: dict[str, float] = {}
    for paths in shared.values():
        if (held := count_held_s(ledger[paths[0]])) is not None:
            hours[paths[0]] = held / 3600
        if "held_s" in ledger[paths[0]]:
            continue
        ordered = sorted(paths, key=lambda path: ledger[path]["started_at"])
        first, *later = (ledger[path] for path in ordered)
        start = first["job"]["started_at"] if has_own_allocation(first) else None
        start = start or accounting.to_seconds(first["started_at"])
        marks = [start, *(accounting.to_seconds(record["started_at"]) for record in later)]
        if (end := read_end_s(ledger[ordered[-1]], start)) is not None:
            marks.append(end)
        hours |= {path: (until - since) / 3600 for path, (since, until) in zip(ordered, pairwise(marks), strict=False)}
    return hours


def count_held_s(record: dict) -> float | None:
    """Return the seconds for which an ended job had the machine to itself, without its waits for other jobs.

    None if the job still runs, if its end is not known, or if it did not take turns, see base.machine_lock.
    """
    if record["status"] == "running" or "held_s" not in record:
        return None
    if record["holding_since"] is None:
        return record["held_s"]
    if "finished_at" not in record:
        return None
    return record["held_s"] + max(0.0, accounting.to_seconds(record["finished_at"]) - record["holding_since"])


def read_end_s(record: dict, start: float) -> float | None:
    """Return when the job of a record ended, in seconds since 1970, if that is known."""
    if is_counted(record):
        return start + record["counted"]["elapsed_s"]
    return accounting.to_seconds(record["finished_at"]) if "finished_at" in record else None


def has_own_allocation(record: dict) -> bool:
    """Return whether a record is about a job of SLURM that had its allocation to itself."""
    return "job" in record and not record["job"]["packed"]


def is_counted(record: dict) -> bool:
    return has_own_allocation(record) and record.get("counted", {}).get("has_ended", False)


def read_allocated(record: dict) -> str | None:
    """Return SLURM's words for the resources that it gave to a job, as recorded last."""
    return record.get("counted", {}).get("allocated") or record.get("job", {}).get("allocated")
