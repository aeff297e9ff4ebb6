"""
Prepare a process that srun, mpirun or measure.launch.spawn has started, and then run a module in it.

The process finds its rank and makes sure that no other has the same. It takes its node's devices and learns the
addresses of the others. The first process of a node starts the node's telemetry. Then the process runs the given module
with the same Python.
"""

import argparse
import dataclasses
import functools
import json
import os
import socket
import subprocess
import sys
import traceback
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from howmanygpus.base.environment import is_usable
from howmanygpus.measure.around.health import try_to_read_health
from howmanygpus.measure.host.devices import assign_devices, describe_topology, share_among_devices
from howmanygpus.measure.host.placement import Placement
from howmanygpus.measure.host.processes import describe_cores, die_with_parent
from howmanygpus.measure.host.telemetry import Watched, get_node_path
from howmanygpus.measure.launch.environment import cuda_environment
from howmanygpus.measure.launch.launchers import count_processes, has_process_each
from howmanygpus.measure.launch.rendezvous import (
    announce,
    exchange_again,
    read_rendezvous,
    reserve_port,
    resolve_address,
    wait_for_all,
)
from howmanygpus.measure.launch.staging import STAGED, stage
from howmanygpus.measure.records import AttemptFolder
from howmanygpus.measure.spec import LaunchSpec, RunSpec

STEP = "slurmstepd"
RANK_VARIABLES = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("HOWMANYGPUS_RANK", "HOWMANYGPUS_LOCAL_RANK", "HOWMANYGPUS_WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS"),
)
"""Set by mpirun, measure.launch.spawn and srun. The inner launcher comes first: mpirun's daemons are tasks of srun."""


@dataclass(frozen=True)
class ProcessPlace:
    """Which of the run's processes this one is; local_rank counts on its node."""

    rank: int
    local_rank: int
    num_processes: int


def read_place() -> ProcessPlace:
    """Read the place from the launcher's environment variables; raise RuntimeError if no launcher has set any."""
    for names in RANK_VARIABLES:
        if names[0] in os.environ:
            return ProcessPlace(*(int(os.environ[name]) for name in names))
    raise RuntimeError(
        f"none of {', '.join(names[0] for names in RANK_VARIABLES)} is set; start this module by srun, mpirun or "
        "howmanygpus.measure.launch.spawn"
    )


def check_devices(spec: LaunchSpec, placement: Placement) -> str | None:
    """Return CUDA_VISIBLE_DEVICES as the scheduler set it; raise RuntimeError if devices are missing in it."""
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    num_given = len([device for device in (given or "").split(",") if device])
    if placement.step_options and num_given < spec.devices_per_node:
        raise RuntimeError(f"{spec.devices_per_node} devices were asked for; CUDA_VISIBLE_DEVICES is {given!r}")
    return given


def prepare(folder: Path, spec: LaunchSpec, placement: Placement) -> None:
    """Announce this process, wait for the others, and set the environment of the module that runs next."""
    place = read_place()
    if place.num_processes != count_processes(spec):
        raise RuntimeError(f"{place.num_processes} processes were started, not {count_processes(spec)}")
    node, given = place.rank // (place.num_processes // spec.num_nodes), check_devices(spec, placement)
    assignment = assign_devices(spec, placement.bind_cores)
    port, address = reserve_port(), resolve_address(placement)
    description = {
        **{"node": node, "local_rank": place.local_rank, "pid": os.getpid(), "address": f"{address}:{port}"},
        **{"hostname": os.environ.get("SLURMD_NODENAME") or socket.gethostname()},
        **{"visible_devices": given, "gpu_uuids": assignment.gpu_uuids, "step": os.environ.get("SLURM_STEP_ID")},
        **{"topology": describe_topology(assignment)},
    }
    if placement.scheduler == "slurm" and place.local_rank == 0:
        # The others use no device before this process has announced itself.
        description |= try_to_read_health(assignment.gpu_uuids, assignment.cores, str(folder.parent))
    announce(folder, place.rank, description)
    others = wait_for_all(folder, place.num_processes, placement.rendezvous_timeout_s)
    if placement.scratch and isinstance(spec, RunSpec):
        # Only once all are there: a node that copies is not one that is missing.
        copy, seconds = stage(Path(spec.data_dir), placement.scratch)
        os.environ[STAGED] = str(copy)
        exchange_again(folder, place.rank, place.num_processes, {"staging_s": seconds})
    if not is_usable(os.environ.get("TMPDIR", "")):
        # It may have been needed to find the scratch folder.
        del os.environ["TMPDIR"]
    set_environment(place, [other["address"] for other in others], placement.network_interface)
    os.environ |= assignment.variables if spec.device_kind == "cuda" else describe_cores(assignment.cores_by_device)
    if placement.python and spec.device_kind == "cuda":
        # The launcher, which is outside of the container, does not know its libraries.
        os.environ |= cuda_environment()
    if placement.bind_cores:
        os.sched_setaffinity(0, assignment.cores)
    if placement.scheduler == "slurm" and place.local_rank == 0:
        cores = share_among_devices(spec, list_cores_by_device([each for each in others if each["node"] == node]))
        watched = Watched(
            find_step() if placement.python else os.getppid(), assignment.gpu_uuids, cores, has_process_each(spec)
        )
        start_telemetry(folder, node, watched, placement.telemetry_interval_s)


def find_step() -> int:
    """Return the process of SLURM's step, of which a container's own processes are between it and this one.

    It is the parent if the container shows no other.
    """
    with suppress(psutil.Error, StopIteration):
        return next(each.pid for each in psutil.Process().parents() if each.name() == STEP)
    return os.getppid()


def set_environment(place: ProcessPlace, addresses: list[str], network_interface: str | None) -> None:
    """Set PyTorch's variables, the addresses of all processes for other frameworks, and NCCL's and gloo's interface."""
    first_host, _, first_port = addresses[0].rpartition(":")
    os.environ |= {
        **{"RANK": str(place.rank), "LOCAL_RANK": str(place.local_rank), "WORLD_SIZE": str(place.num_processes)},
        **{"MASTER_ADDR": first_host, "MASTER_PORT": first_port, "HOWMANYGPUS_ADDRESSES": ",".join(addresses)},
    }
    if network_interface:
        os.environ |= dict.fromkeys(("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"), network_interface)


def list_cores_by_device(processes: list[dict]) -> list[list[int]]:
    """Return the cores of each device of a node. processes: descriptions of the node's processes, by rank.

    If the scheduler has bound each process, each knows its own cores only.
    """
    shares = [[each["cores"] for each in process["topology"]["cores"]] for process in processes]
    return shares[0] if len(shares[0]) > 1 else [cores for own in shares for cores in own]


def start_telemetry(folder: Path, node: int, watched: Watched, interval_s: float) -> None:
    """Start a program that watches this process and its siblings, and that ends with this process."""
    get_node_path(folder, node).touch()  # a run may end before the program has begun
    command = [sys.executable, "-m", "howmanygpus.measure.host.telemetry", "--folder", str(folder), "--node", str(node)]
    options = ["--watched", json.dumps(dataclasses.asdict(watched)), "--interval-s", str(interval_s)]
    subprocess.Popen([*command, *options], preexec_fn=functools.partial(die_with_parent, parent=os.getpid()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="where the processes announce themselves")
    parser.add_argument("module", help="module to run, with its options")
    parser.add_argument("options", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    die_with_parent()
    try:
        prepare(arguments.folder, *read_rendezvous(arguments.folder))
    except Exception:
        rank = next((os.environ[names[0]] for names in RANK_VARIABLES if names[0] in os.environ), "0")
        AttemptFolder(arguments.folder.parent).error_of(int(rank)).write_text(traceback.format_exc())
        raise
    os.execv(sys.executable, [sys.executable, "-m", arguments.module, *arguments.options])


if __name__ == "__main__":
    main()
