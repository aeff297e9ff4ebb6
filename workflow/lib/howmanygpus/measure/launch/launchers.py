"""
Build the command line that starts the processes of a run.

The launcher `plain` starts one process for all devices, and `per_node` starts one per node. `per_device`, `horovodrun`
and `mpirun` start one per device. On one machine, measure.launch.spawn, horovodrun or mpirun starts these; in a job of
SLURM, srun (one task each) or mpirun does. `independent` starts one per device, of which each does a run of its own
(measure.launch.independent). In a container, srun starts the container on each node, with the process inside it. A
process that srun, mpirun inside a job, or spawn has started begins as
measure.launch.rank_process, which finds its rank.
"""

import os
import sys
from pathlib import Path

from howmanygpus.measure.host.placement import Placement
from howmanygpus.measure.launch.environment import build_environment, set_again
from howmanygpus.measure.spec import INDEPENDENT, LaunchSpec, RunSpec


def count_processes_per_node(launcher: str, devices_per_node: int) -> int:
    return 1 if launcher in ("plain", "per_node") else devices_per_node


def count_processes(spec: LaunchSpec) -> int:
    return spec.num_nodes * count_processes_per_node(spec.launcher, spec.devices_per_node)


def has_process_each(spec: LaunchSpec) -> bool:
    """Whether each of several devices of a node has a process of its own."""
    return spec.devices_per_node > 1 and count_processes(spec) == spec.num_gpus


def build_command(spec: LaunchSpec, placement: Placement, folder: Path, module: str, options: list[str]) -> list[str]:
    """Return the command line of a module's processes. folder: an empty folder that all of them can read."""
    target = ["howmanygpus.measure.launch.independent" if spec.launcher == INDEPENDENT else module, *options]
    python = placement.python or [sys.executable]
    task = [*python, "-m", "howmanygpus.measure.launch.rank_process", "--folder", str(folder), *target]
    if placement.python and uses_mpirun(spec):
        raise ValueError(
            f"{spec.framework} starts by mpirun, which a container on several nodes does not have; name a Python on "
            "the nodes in `environments` of the machine file, or leave the framework out"
        )
    if placement.scheduler == "slurm":
        start = (mpirun if uses_mpirun(spec) else srun)(spec, placement)
        return [*start, *set_again(build_environment(spec, placement)), *task]
    if uses_mpirun(spec):
        return [*mpirun(spec, placement), sys.executable, "-m", *target]
    if spec.launcher in ("per_device", INDEPENDENT):
        number = ["--num-processes", str(spec.num_gpus)]
        return [sys.executable, "-m", "howmanygpus.measure.launch.spawn", *number, "--folder", str(folder), *target]
    if spec.launcher == "horovodrun":
        return [resolve_program("horovodrun"), "-np", str(spec.num_gpus), "--gloo", sys.executable, "-m", *target]
    return [sys.executable, "-m", *target]


def uses_mpirun(spec: LaunchSpec) -> bool:
    if spec.launcher == "horovodrun" and isinstance(spec, RunSpec):
        return spec.horovod_controller == "mpi"
    return spec.launcher == "mpirun"


def srun(spec: LaunchSpec, placement: Placement) -> list[str]:
    """Return srun with its options: one task per process. The first task that fails ends all of them.

    Every task sees all devices of its node, because NCCL needs that.
    """
    num_processes = count_processes(spec)
    tasks_per_node = num_processes // spec.num_nodes
    cores_per_task = spec.cores_per_device * spec.devices_per_node // tasks_per_node
    return [
        *("srun", "--mpi=none", "--kill-on-bad-exit=1"),
        *(["--cpu-bind=none"] if placement.bind_cores else []),
        *(f"--nodes={spec.num_nodes}", f"--ntasks={num_processes}", f"--ntasks-per-node={tasks_per_node}"),
        *(f"--cpus-per-task={cores_per_task}", *placement.describe_step(spec.devices_per_node)),
    ]


def mpirun(spec: LaunchSpec, placement: Placement) -> list[str]:
    """Return mpirun with its options. It does not bind processes to cores, because each process binds itself."""
    command = [resolve_program("mpirun"), "-np", str(spec.num_gpus), "--bind-to", "none"]
    if placement.scheduler == "slurm":
        return [*command, "--map-by", f"ppr:{spec.devices_per_node}:node:OVERSUBSCRIBE"]
    return [*command, "--map-by", ":OVERSUBSCRIBE"]


def resolve_program(name: str) -> str:
    """Return the path of this environment's own program, or its name alone if the environment has none."""
    own = Path(sys.executable).with_name(name)
    return str(own) if os.access(own, os.X_OK) else name
