"""Compares the machine file and the studies with what the cluster offers, before any job is submitted."""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from howmanygpus.config.findings import Finding, find_error
from howmanygpus.invocation.rules.parity import resolve_limit_min
from howmanygpus.paths import RUNS
from howmanygpus.site import slurm
from howmanygpus.site.machine import Device, Machine
from howmanygpus.site.offer import Offer, PartitionError, User, ask_for_offer, ask_user, explain_closure
from howmanygpus.study.plan import Plan
from howmanygpus.study.runs import Run
from howmanygpus.study.study import Study

OF_DEVICES = "limit_min"
"""A resource that only rules of jobs with devices have; see site.requests."""
PROFILE = "config.yaml of the profile"


def find_misfits(plan: Plan, results: Path = RUNS) -> list[Finding]:
    """Return an error for each kind of job that could never start.

    results: folder of the finished runs. Only devices of missing runs are looked at. The list is empty if jobs are not
    submitted or SLURM does not answer. Limits of accounts and of a QOS are not known here; see invocation.waiting.
    """
    found: list[Finding] = []
    if not plan.machine.submits:
        return found
    for name in filter(plan.machine.devices.get, plan.devices):
        place = f"{plan.machine.path}: devices.{name}"
        runs = [run for run in plan.runs.values() if run.device == name and not run.unsupported]
        if not (missing := [run for run in runs if not (results / run.path / "run.json").exists()]):
            continue
        try:
            offer = ask_for_offer(plan.machine.device(name).options)
        except PartitionError as error:
            found.append(replace(error.args[0], place=f"{place}.partition"))
            continue
        if offer is None:
            break
        found += _check_device(plan, offer, missing, place)
    return found


def find_closures(plan: Plan, account: str | None, partition: str | None, results: Path = RUNS) -> list[Finding]:
    """Return a warning for each partition that starts none of the jobs, as far as groups, accounts and QOS tell.

    account, partition: those that the profile names for its jobs; None for SLURM's defaults, and for the account that
    the shell names. results: as in find_misfits. These are no errors: accounts may be nested, and SLURM alone knows all
    rules of its site.
    """
    if not plan.machine.submits:
        return []
    try:
        known, user = slurm.list_partitions(), ask_user()
    except slurm.SlurmError:
        return []
    shell_account, usual_qos = (os.environ.get(f"SBATCH_{what}") or None for what in ("ACCOUNT", "QOS"))
    account = account or shell_account
    jobs = {f"{PROFILE}: slurm_partition": (partition, usual_qos)}
    for run in plan.runs.values():
        place = f"{plan.machine.path}: devices.{run.device}.partition"
        if place not in jobs and not run.unsupported and not (results / run.path / "run.json").exists():
            options = plan.machine.device(run.device).options
            jobs[place] = options["partition"], options["qos"] or usual_qos
    found = _check_account(user, account) if len(jobs) > 1 else []
    for place, (names, qos) in jobs.items() if len(jobs) > 1 else ():
        chosen = [each for each in known if (each.name in names.split(",") if names else each.is_default)]
        closures = [(each.name, explain_closure(each, user, account, qos)) for each in chosen]
        if closures and all(closure for _, closure in closures):
            name, closure = closures[0]
            remedy = "name another partition, or change `slurm_account` of the profile or `qos` of the device"
            found.append(Finding(place, name, closure, remedy))
    return found


def _check_account(user: User, account: str | None) -> list[Finding]:
    """Return why SLURM may refuse every job of a user; empty if nothing tells so. account: as in find_closures."""
    own = dict.fromkeys(each.account for each in user.associations or ())
    if user.associations is None or (account.lower() in own if account else own):
        return []
    if account and own:
        remedy = f"choose from {', '.join(own)}"
        return [Finding(f"{PROFILE}: slurm_account", repr(account), "is none of your accounts", remedy)]
    with suppress(slurm.SlurmError):
        if "associations" in slurm.read_configuration().get("AccountingStorageEnforce", ""):
            problem = "SLURM's accounting has no account of yours on this cluster, and it takes no job without one"
            remedy = "ask your site for one (`sacctmgr show associations user=$USER` lists yours)"
            return [Finding("", "", problem, remedy)]
    return []


def _check_device(plan: Plan, offer: Offer, runs: list[Run], place: str) -> Iterator[Finding]:
    device = plan.machine.device(runs[0].device)
    num_nodes = max(map(plan.machine.count_nodes, runs))
    yield from _check_nodes(offer, device, num_nodes, place)
    # Some QOS exceed the limits of the partition.
    if device.options["qos"] is None and not os.environ.get("SBATCH_QOS"):
        if offer.max_nodes < num_nodes <= len(offer.nodes):
            problem = (
                f"runs need {num_nodes} nodes, and partition {offer.partition} gives a job {offer.max_nodes:g} at most"
            )
            remedy = "lower num_gpus or num_nodes of the studies, or name another partition"
            yield find_error(f"{place}.max_nodes", "", problem, remedy)
        studies = [plan.studies[name] for name in dict.fromkeys(run.study for run in runs)]
        yield from _check_times(offer, studies, plan.machine, place)


def _check_nodes(offer: Offer, device: Device, num_nodes: int, place: str) -> Iterator[Finding]:
    where = f"partition {offer.partition}"
    if not offer.nodes:
        wanted = ", ".join(filter(None, (device.options["request"], device.options["constraint"])))
        remedy = "correct `request`, `constraint` or `partition` (`sinfo -o '%P %G %f'` lists what there is)"
        yield find_error(place, "", f"no node of {where} has {wanted or 'devices'}", remedy)
    elif num_nodes > len(offer.nodes):
        problem = f"runs need {num_nodes} nodes, and {where} has {len(offer.nodes)} with this device"
        yield find_error(f"{place}.max_nodes", "", problem, "lower num_gpus or num_nodes of the studies")
    else:
        yield from _check_shares(offer, device, num_nodes, place)


def _check_shares(offer: Offer, device: Device, num_nodes: int, place: str) -> Iterator[Finding]:
    """Check that a node has enough devices, and enough cores and memory for each of them."""
    count, has = device.devices_per_node, f"a node of partition {offer.partition} has"
    most_devices = count if offer.nodes[0].devices is None else offer.most("devices", num_nodes)
    if count > most_devices:
        problem, remedy = f"is too large, {has} {most_devices}", f"lower it to {most_devices}"
        yield find_error(f"{place}.devices_per_node", count, problem, remedy)
        return
    shares = {
        "cores_per_device": (device.cores_per_device, offer.most("cores", num_nodes), "cores"),
        "memory_per_device_mb": (device.options["memory_per_device_mb"], offer.most("memory_mb", num_nodes), "MB"),
    }
    for key, (each, most, unit) in shares.items():
        if each * count > most:
            lower = f"lower it to {most // count}" if most >= count else "lower `devices_per_node`"
            problem = f"for each of {count} devices is {each * count} {unit}, {has} {most}"
            yield find_error(f"{place}.{key}", each, problem, f"{lower}, or name another partition")


def _check_times(offer: Offer, studies: list[Study], machine: Machine, place: str) -> Iterator[Finding]:
    overhead_min, longest_min = machine.slurm["overhead_min"], offer.longest_job_min
    gate_min = resolve_limit_min(machine) + overhead_min
    left_min = longest_min - overhead_min
    if gate_min > longest_min and any(study.config["parity"] != "off" for study in studies):
        problem = f"a job of the parity gate takes up to {gate_min} minutes, and partition "
        problem += f"{offer.partition} ends jobs after {longest_min:.0f}"
        lower = f"lower `slurm.gate_limit_min` of {machine.path} to {left_min:.0f}, or " if left_min >= 1 else ""
        yield find_error(f"{place}.partition", "", problem, f"{lower}name another partition")
    for study in studies:
        limit_min = study.config["time_limit_min"]
        if limit_min + overhead_min > longest_min:
            problem = f"and the {overhead_min} of slurm.overhead_min exceed the {longest_min:.0f} minutes that "
            problem += f"partition {offer.partition} allows a job"
            lower = f"lower it to {left_min:.0f}, or " if left_min >= 1 else ""
            remedy = f"{lower}name another partition or `qos` in {machine.path}"
            yield find_error(f"{study.place}.time_limit_min", limit_min, problem, remedy)


def find_misfits_without_devices(jobs: Iterable[Any]) -> list[Finding]:
    """Return an error for each kind of job without a device that could never start.

    jobs: those of Snakemake that are to run. The list is empty if SLURM does not answer.
    """
    partitions: dict[str | None, list[Any]] = {}
    for job in jobs:
        if not (job.is_local or job.is_group() or OF_DEVICES in job.rule.resources):
            partitions.setdefault(job.resources.get("slurm_partition"), []).append(job)
    found: list[Finding] = []
    for partition, submitted in partitions.items():
        try:
            offer = ask_for_offer({"partition": partition, "request": None, "constraint": None})
        except PartitionError as error:
            found.append(replace(error.args[0], place=f"{PROFILE}: slurm_partition"))
            continue
        if offer and offer.nodes:
            found += _check_without_devices(offer, submitted)
    return list(dict.fromkeys(found))


def _check_without_devices(offer: Offer, jobs: list[Any]) -> Iterator[Finding]:
    """Compare jobs with the largest of the partition's nodes."""
    most = {"cores": offer.most("cores", 1), "mem_mb": offer.most("memory_mb", 1)}
    where = f"partition {offer.partition}"
    for job in jobs:
        rule, runtime, memory_mb = job.rule.name, job.resources.get("runtime"), job.resources.get("mem_mb")
        other = "or name another `slurm_partition` there"
        if _is_number(runtime) and runtime > offer.longest_job_min:
            problem = (
                f"minutes of jobs without a device exceed the {offer.longest_job_min:.0f} that {where} allows a job"
            )
            yield find_error(f"{PROFILE}: runtime", runtime, problem, f"lower it, {other}")
        if job.threads > most["cores"]:
            problem = f"the step {rule} asks for {job.threads} cores, and a node of {where} has {most['cores']}"
            yield find_error(PROFILE, "", problem, f"add `{rule}={most['cores']}` to `set-threads`, {other}")
        if _is_number(memory_mb) and memory_mb > most["mem_mb"]:
            problem = f"the step {rule} asks for {memory_mb} MB, and a node of {where} gives {most['mem_mb']}"
            yield find_error(PROFILE, "", problem, f"lower mem_mb, {other}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float)
