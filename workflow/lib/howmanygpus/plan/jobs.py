"""
What jobs ask of SLURM, in the words of Snakemake's executor plugin.

The plugin's own `gpu` and `mpi` would split GPUs unevenly over nodes and refuse a single task, so a job asks for its
devices node by node, runs its commands in the batch script, and there starts the processes with srun.
"""

import json
from dataclasses import dataclass

from howmanygpus.plan.config.machine import Device, Machine
from howmanygpus.plan.frameworks import FRAMEWORKS
from howmanygpus.train.start.launchers import count_processes_per_node

BATCH_SCRIPT = ""
"""A value for the resource `mpi` with which the plugin runs a job's commands in the batch script and asks no more."""


def asks_by_gres(device: Device) -> bool:
    """Whether devices are asked for as a gres, rather than by an option of sbatch's own or not at all."""
    request = device.options["request"]
    return request is not None and not request.startswith("-")


@dataclass(frozen=True)
class JobSize:
    """What a job needs: launcher of train.start.launchers, numbers of devices and nodes, and time limit in minutes."""

    device: Device
    launcher: str
    num_gpus: int
    num_nodes: int
    limit_min: float


def job_resources(machine: Machine, size: JobSize, attempt: int) -> dict:
    """Resources of a job; None is not asked for.

    `limit_min` is the run's own time limit, and `runtime` the job's. A further attempt gets more time and more memory.
    """
    device, num_gpus, num_nodes, limit_min = size.device, size.num_gpus, size.num_nodes, size.limit_min
    if not machine.submits:
        return {"limit_min": limit_min * attempt}
    options, per_node = device.options, num_gpus // num_nodes
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
        "mem_mb": options["memory_per_device_mb"] * per_node * attempt,
        "limit_min": limit_min * attempt,
        "runtime": round(limit_min * attempt + machine.slurm["overhead_min"]),
        "slurm_partition": options["partition"],
        "constraint": options["constraint"],
        "slurm_extra": " ".join(filter(None, extra)) or None,
    }


def list_resources(machine: Machine) -> tuple[str, ...]:
    """Names of what job_resources returns."""
    if not machine.submits:
        return ("limit_min",)
    layout = ("mpi", "nodes", "tasks", "cpus_per_task", "gres", "mem_mb")
    return ("limit_min", "runtime", *layout, "slurm_partition", "constraint", "slurm_extra")


def expectation(machine: Machine, device: Device, frameworks: set[str], longest_job_min: float) -> dict:
    """What a probe compares a node with, see howmanygpus.train.preflight.probe.judge."""
    keys = ("devices_per_node", "max_nodes", "cores_per_device", "compute_capability", "request")
    shared = ("bind_cores", "network_interface", "rendezvous_suffix", "scratch", "compute_nodes_have_network")
    environments = sorted({FRAMEWORKS[framework].environments.get(device.kind, "") for framework in frameworks} - {""})
    return {
        **{key: device.options[key] for key in keys},
        **{key: machine.slurm[key] for key in shared},
        **{"kind": device.kind, "environments": environments, "longest_job_min": longest_job_min},
    }


def placement(machine: Machine, device: Device) -> str:
    """How the processes of a run start, as JSON of a howmanygpus.train.host.placement.Placement; {} on this machine."""
    if not machine.submits:
        return "{}" if machine.slurm.get("bind_cores", True) else json.dumps({"bind_cores": False})
    request = device.options["request"]
    # Nothing of --gpu-bind: unless asked to, SLURM binds no task to a GPU of its own, and 22.05 shows none for `none`.
    step_options = [f"--gres={request}" if asks_by_gres(device) else request] if request else []
    keys = ("bind_cores", "network_interface", "rendezvous_suffix", "rendezvous_timeout_s", "scratch")
    values = {key: machine.slurm[key] for key in keys}
    return json.dumps({"scheduler": "slurm", "step_options": step_options, **values})
