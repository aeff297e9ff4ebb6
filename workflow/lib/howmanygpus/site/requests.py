"""
Computes the SLURM resources that jobs request, in the terms of Snakemake's executor plugin.

The plugin's own `gpu` resource would split GPUs unevenly over nodes, and its `mpi` resource would refuse a single task.
A job therefore requests its devices per node, runs its commands in the batch script, and starts the processes from
there with srun.
"""

import json
from dataclasses import dataclass

from howmanygpus.measure.host.placement import Placement
from howmanygpus.measure.launch.launchers import count_processes_per_node
from howmanygpus.registry import FRAMEWORKS
from howmanygpus.site.machine import Device, Machine
from howmanygpus.site.offer import Offer
from howmanygpus.site.retrying import Growth

BATCH_SCRIPT = ""
"""This value of the resource `mpi` makes the plugin run the job's commands in the batch script."""


def asks_by_gres(device: Device) -> bool:
    """Say whether devices are requested as a gres, rather than by another option of sbatch or not at all."""
    request = device.options["request"]
    return request is not None and not request.startswith("-")


@dataclass(frozen=True)
class JobSize:
    """The size of a job. The launcher is one of measure.launch.launchers, and the time limit is in minutes."""

    device: Device
    launcher: str
    num_gpus: int
    num_nodes: int
    limit_min: float


def grow(first: float, factor: int, most: float) -> float:
    """Return a multiple of the first attempt's request, at most `most` unless the first request exceeds that."""
    return max(first, min(first * factor, most))


def job_resources(machine: Machine, size: JobSize, growth: Growth, offer: Offer | None = None) -> dict:
    """Return the resources of a job. A resource with the value None is not requested.

    `limit_min` is the time limit of the run, and `runtime` is that of the job. offer: what the cluster offers, if it is
    known and the job is to grow; a job does not grow beyond it.
    """
    device, num_gpus, num_nodes = size.device, size.num_gpus, size.num_nodes
    if not machine.submits:
        return {"limit_min": size.limit_min * growth.time}
    options, per_node, overhead_min = device.options, num_gpus // num_nodes, machine.slurm["overhead_min"]
    longest_min, most_mb = (offer.longest_job_min, offer.most("memory_mb", num_nodes)) if offer else (0, 0)
    limit_min = grow(size.limit_min, growth.time, longest_min - overhead_min)
    num_tasks_per_node = count_processes_per_node(size.launcher, per_node)
    request = options["request"].format(n=per_node) if options["request"] else None
    extra = [options["sbatch_options"]]
    if options["nodes"] == "exclusive":
        extra.append("--exclusive")
    if request and asks_by_gres(device):
        extra.append(f"--ntasks-per-node={num_tasks_per_node}")
    elif request:
        extra.append(request)
    return {
        "mpi": BATCH_SCRIPT,
        "nodes": num_nodes,
        "tasks": None if asks_by_gres(device) else num_nodes * num_tasks_per_node,
        "cpus_per_task": device.cores_per_device * per_node // num_tasks_per_node,
        "gres": request if asks_by_gres(device) else None,
        "mem_mb": round(grow(options["memory_per_device_mb"] * per_node, growth.memory, most_mb)),
        "limit_min": limit_min,
        "runtime": round(limit_min + overhead_min),
        "slurm_partition": options["partition"],
        "constraint": options["constraint"],
        "qos": options["qos"],
        "slurm_extra": " ".join(filter(None, extra)) or None,
    }


def list_resources(machine: Machine) -> tuple[str, ...]:
    """List the names of the resources that job_resources returns."""
    if not machine.submits:
        return ("limit_min",)
    layout = ("mpi", "nodes", "tasks", "cpus_per_task", "gres", "mem_mb")
    return ("limit_min", "runtime", *layout, "slurm_partition", "constraint", "qos", "slurm_extra")


def expectation(
    machine: Machine, device: Device, frameworks: set[str], modules: list[list[str]], longest_job_min: float
) -> dict:
    """Return the expected values with which a probe compares a node; see howmanygpus.site.node_check.judge.

    modules: those that programs of users load.
    """
    keys = ("devices_per_node", "max_nodes", "cores_per_device", "compute_capability", "request")
    shared = ("bind_cores", "network_interface", "rendezvous_suffix", "scratch", "compute_nodes_have_network")
    environments = sorted({FRAMEWORKS[framework].environments.get(device.kind, "") for framework in frameworks} - {""})
    loaded = [machine.environments[name]["modules"] for name in environments if name in machine.environments]
    return {
        **{key: device.options[key] for key in keys},
        **{key: machine.slurm[key] for key in shared},
        **{"modules": [each for each in [*loaded, *modules] if each], "starts_steps": machine.submits},
        **{"kind": device.kind, "environments": environments, "longest_job_min": longest_job_min},
        "packed": machine.packed,
        "placement": json.loads(placement(machine, device)),
    }


def placement(machine: Machine, device: Device) -> str:
    """Return how the processes of a run start, as JSON of a howmanygpus.measure.host.placement.Placement.

    A run that is no job of its own gets only what the machine file sets to something else than its default.
    """
    telemetry = {"telemetry_interval_s": machine.telemetry_interval_s}
    if not machine.submits:
        values = telemetry | {"bind_cores": machine.slurm.get("bind_cores", True)}
        return json.dumps({key: value for key, value in values.items() if value != getattr(Placement, key)})
    request = device.options["request"]
    # --gpu-bind is left out: by default SLURM binds no task to a single GPU, and with --gpu-bind=none SLURM 22.05 hides
    # all GPUs from the tasks.
    step_options = [f"--gres={request}" if asks_by_gres(device) else request] if request else []
    keys = ("bind_cores", "network_interface", "rendezvous_suffix", "rendezvous_timeout_s", "scratch")
    values = {key: machine.slurm[key] for key in keys}
    return json.dumps({"scheduler": "slurm", "step_options": step_options, **values, **telemetry})
