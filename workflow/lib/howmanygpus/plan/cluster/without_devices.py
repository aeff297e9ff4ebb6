"""Compares jobs without a device with the nodes of their partition: environments, data sets, the gate's reference."""

from collections.abc import Iterable, Iterator
from typing import Any

from howmanygpus.plan.cluster.offer import Offer, PartitionError, ask_for_offer

OF_DEVICES = "limit_min"
"""A resource that only rules of jobs with devices have; see plan.jobs."""
PROFILE = "config.yaml of the profile"


def find_misfits_without_devices(jobs: Iterable[Any], account: str | None = None) -> list[str]:
    """Return a message for each kind of job without a device that could never start, with the remedy.

    jobs: those of Snakemake that are to run. account: of the jobs; None for the default of the user. The list is empty
    if SLURM does not answer.
    """
    partitions: dict[str | None, list[Any]] = {}
    for job in jobs:
        if not (job.is_local or job.is_group() or OF_DEVICES in job.rule.resources):
            partitions.setdefault(job.resources.get("slurm_partition"), []).append(job)
    messages: list[str] = []
    for partition, submitted in partitions.items():
        try:
            offer = ask_for_offer({"partition": partition, "request": None, "constraint": None}, account)
        except PartitionError as error:
            messages.append(f"{PROFILE}: slurm_partition: {error}")
            continue
        if offer and offer.nodes:
            messages += _compare(offer, submitted)
    return list(dict.fromkeys(messages))


def _compare(offer: Offer, jobs: list[Any]) -> Iterator[str]:
    """Compare jobs with the largest of the partition's nodes."""
    most = {"cores": offer.most("cores", 1), "mem_mb": offer.most_memory_mb(1)}
    where = f"partition {offer.partition}"
    for job in jobs:
        rule, runtime, memory_mb = job.rule.name, job.resources.get("runtime"), job.resources.get("mem_mb")
        other = "or name another `slurm_partition` there"
        if _is_number(runtime) and runtime > offer.longest_job_min:
            yield (
                f"{PROFILE}: runtime: {runtime} minutes of jobs without a device exceed the "
                f"{offer.longest_job_min:.0f} that {offer.longest_is_of} allows a job; lower it, {other}"
            )
        if job.threads > most["cores"]:
            yield (
                f"{PROFILE}: the step {rule} asks for {job.threads} cores, and a node of {where} has {most['cores']}; "
                f"add `{rule}={most['cores']}` to `set-threads`, {other}"
            )
        if _is_number(memory_mb) and memory_mb > most["mem_mb"]:
            yield (
                f"{PROFILE}: the step {rule} asks for {memory_mb} MB, and a node of {where} gives "
                f"{most['mem_mb']:.0f}; lower mem_mb, {other}"
            )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float)
