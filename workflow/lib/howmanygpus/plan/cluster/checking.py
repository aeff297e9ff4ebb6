"""Compares the machine file and the studies with what the cluster offers, before any job is submitted."""

from collections.abc import Iterator
from pathlib import Path

from howmanygpus.plan.cluster.offer import Offer, PartitionError, ask_for_offer
from howmanygpus.plan.config.machine import Device, Machine
from howmanygpus.plan.dry_run.durations import RUNS
from howmanygpus.plan.jobs import asks_by_gres
from howmanygpus.plan.plan import Plan
from howmanygpus.plan.rules.parity import find_limit_min
from howmanygpus.plan.runs import Run
from howmanygpus.plan.study.study import Study


def find_misfits(plan: Plan, results: Path = RUNS, account: str | None = None) -> list[str]:
    """Return a message for each kind of job that could never start, with the place and the remedy.

    results: folder of the finished runs. Only devices of missing runs are looked at. account: of the jobs; None for the
    default of the user. The list is empty if jobs are not submitted or SLURM does not answer.
    """
    messages: list[str] = []
    if not plan.machine.submits:
        return messages
    for name in filter(plan.machine.devices.get, plan.devices):
        place = f"{plan.machine.path}: devices.{name}"
        runs = [run for run in plan.runs.values() if run.device == name and not run.unsupported]
        if not (missing := [run for run in runs if not (results / run.path / "run.json").exists()]):
            continue
        try:
            offer = ask_for_offer(plan.machine.device(name).options, account)
        except PartitionError as error:
            messages.append(f"{place}.partition: {error}")
            continue
        if offer is None:
            break
        messages += _check_device(plan, offer, missing, place)
    return messages


def _check_device(plan: Plan, offer: Offer, runs: list[Run], place: str) -> Iterator[str]:
    device = plan.machine.device(runs[0].device)
    num_nodes = max(map(plan.machine.count_nodes, runs))
    yield from _check_nodes(offer, device, num_nodes, place)
    yield from _check_limits(offer, device, runs, plan)
    # Some QOS exceed the limits of the partition.
    if device.options["qos"] is None or offer.limits.is_known:
        if offer.max_nodes < num_nodes <= len(offer.nodes):
            yield (
                f"{place}.max_nodes: runs need {num_nodes} nodes, and partition {offer.partition} gives a job "
                f"{offer.max_nodes:g} at most; lower num_gpus or num_nodes of the studies, or name another partition"
            )
        studies = [plan.studies[name] for name in dict.fromkeys(run.study for run in runs)]
        yield from _check_times(offer, studies, plan.machine, place)


def _check_nodes(offer: Offer, device: Device, num_nodes: int, place: str) -> Iterator[str]:
    where = f"partition {offer.partition}"
    if not offer.nodes:
        wanted = ", ".join(filter(None, (device.options["request"], device.options["constraint"])))
        yield (
            f"{place}: no node of {where} has {wanted or 'devices'}; correct `request`, `constraint` or `partition` "
            "(`sinfo -o '%P %G %f'` lists what there is)"
        )
    elif num_nodes > len(offer.nodes):
        yield (
            f"{place}.max_nodes: runs need {num_nodes} nodes, and {where} has {len(offer.nodes)} with this device; "
            "lower num_gpus or num_nodes of the studies"
        )
    else:
        yield from _check_shares(offer, device, num_nodes, place)


def _check_shares(offer: Offer, device: Device, num_nodes: int, place: str) -> Iterator[str]:
    """Check that a node has enough devices, and enough cores and memory for each of them."""
    count, has = device.devices_per_node, f"a node of partition {offer.partition} has"
    most_devices = count if offer.nodes[0].devices is None else offer.most("devices", num_nodes)
    if count > most_devices:
        yield f"{place}.devices_per_node: {count} is too large, {has} {most_devices}; lower it to {most_devices}"
        return
    shares = {
        "cores_per_device": (device.cores_per_device, offer.most("cores", num_nodes), "cores"),
        "memory_per_device_mb": (device.options["memory_per_device_mb"], offer.most("memory_mb", num_nodes), "MB"),
    }
    for key, (each, most, unit) in shares.items():
        if each * count > most:
            yield (
                f"{place}.{key}: {each} for each of {count} devices is {each * count} {unit}, {has} {most}; lower it "
                f"to {most // count}"
            )


def _check_limits(offer: Offer, device: Device, runs: list[Run], plan: Plan) -> Iterator[str]:
    """Check that no job asks for more than SLURM's accounting allows one job."""
    sizes = {(run.num_gpus, plan.machine.count_nodes(run)): f"{plan.studies[run.study].place}.num_gpus" for run in runs}
    # The probe takes a whole node.
    whole = {(device.devices_per_node, 1): f"{plan.machine.path}: devices.{runs[0].device}.devices_per_node"}
    told = set()
    for (num_gpus, num_nodes), place in sorted((whole | sizes).items(), reverse=True):
        for resource, amount in count_resources(device, num_gpus, num_nodes).items():
            limit = offer.limits.find(resource, num_nodes)
            if limit and amount > limit.most and resource not in told:
                told.add(resource)
                yield (
                    f"{place}: {name_count(num_gpus)} ask for {resource}={amount:g}, and {limit.name} allows a job "
                    f"{limit.most:g}, so that it would never start; ask for less, or set another `qos` in "
                    f"{plan.machine.path} (`sacctmgr show qos` lists them)"
                )


def name_count(num_gpus: int) -> str:
    return f"{num_gpus} device{'s' if num_gpus > 1 else ''}"


def count_resources(device: Device, num_gpus: int, num_nodes: int) -> dict[str, float]:
    """Return what a job asks for, by SLURM's names of resources; see plan.jobs. Memory is in MiB."""
    options, (gres, *of_type) = device.options, (device.options["request"] or "").removesuffix(":{n}").split(":")
    names = [f"gres/{gres}", *(f"gres/{gres}:{name}" for name in of_type)] if asks_by_gres(device) else []
    memory_mb, cores = options["memory_per_device_mb"], device.cores_per_device
    others = {"node": num_nodes, "cpu": cores * num_gpus, "mem": memory_mb * num_gpus}
    return dict.fromkeys(names, num_gpus) | others


def _check_times(offer: Offer, studies: list[Study], machine: Machine, place: str) -> Iterator[str]:
    overhead_min, longest_min = machine.slurm["overhead_min"], offer.longest_job_min
    gate_min = find_limit_min(machine) + overhead_min
    if gate_min > longest_min and any(study.config["parity"] != "off" for study in studies):
        yield (
            f"{place}.partition: a job of the parity gate takes up to {gate_min} minutes, and {offer.longest_is_of} "
            f"ends jobs after {longest_min:.0f}; lower `slurm.gate_limit_min` of {machine.path} to "
            f"{longest_min - overhead_min:.0f}, or name another partition"
        )
    for study in studies:
        limit_min = study.config["time_limit_min"]
        if limit_min + overhead_min > longest_min:
            yield (
                f"{study.place}.time_limit_min: {limit_min} and the {overhead_min} of slurm.overhead_min exceed the "
                f"{longest_min:.0f} minutes that {offer.longest_is_of} allows a job; lower it to "
                f"{longest_min - overhead_min:.0f}, or name another partition or `qos` in {machine.path}"
            )
