"""Choose the devices of a run, and describe them and their host."""

import os
import platform
import socket
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pynvml

from howmanygpus.measure.host.gpus import describe_gpu, describe_links, list_gpu_uuids, read_near_cores
from howmanygpus.measure.host.processes import describe_cores, list_cores, list_numa_nodes, share_cores
from howmanygpus.measure.spec import INDEPENDENT, LaunchSpec


@dataclass(frozen=True)
class DeviceAssignment:
    """The GPUs and cores that a run may use on this node.

    gpu_uuids: in the order of ranks; empty on a CPU. cores: one list for each device in the same order, or a single
    list of all cores if the scheduler has chosen them.
    """

    cores_by_device: list[list[int]]
    gpu_uuids: list[str]

    @property
    def cores(self) -> list[int]:
        """All cores of the run."""
        return [core for cores in self.cores_by_device for core in cores]

    @property
    def variables(self) -> dict[str, str]:
        """Environment variables from which the run's processes learn their cores and GPUs.

        Programs that choose a GPU by its number mean NVML's, and not the one that CUDA takes for the fastest.
        """
        order = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"} if self.gpu_uuids else {}
        return describe_cores(self.cores_by_device) | {"CUDA_VISIBLE_DEVICES": ",".join(self.gpu_uuids)} | order


def assign_devices(spec: LaunchSpec, bind_cores: bool = True) -> DeviceAssignment:
    """Assign the first GPUs of this node that this process may use, and cores; raise ValueError if there are too few.

    A GPU gets cores of its own NUMA node while that has any left, and the same kind at every number of GPUs, see
    list_cores; a CPU device gets cores of a single node. Without bind_cores the run keeps all cores, because the
    scheduler has chosen them.
    """
    num_devices, cores = spec.devices_per_node, list_cores()
    uuids: list[str] = []
    if spec.device_kind == "cuda":
        uuids = list_gpu_uuids()
        if len(uuids) < num_devices:
            raise ValueError(
                f"{num_devices} GPUs are asked for on this node, {len(uuids)} may be used: CUDA_VISIBLE_DEVICES is "
                f"{os.environ.get('CUDA_VISIBLE_DEVICES')!r}"
            )
        cores = list_cores(len(uuids) * spec.cores_per_device)
        uuids = uuids[:num_devices]
        if num_devices > 1 and spec.launcher != INDEPENDENT and any(uuid.startswith("MIG-") for uuid in uuids):
            raise ValueError(
                f"{num_devices} GPUs are asked for on this node, and {', '.join(uuids)} has parts of a GPU (MIG), of "
                "which CUDA gives a program only one; ask for one device, or for GPUs that are not split"
            )
    if not bind_cores:
        return DeviceAssignment([cores], uuids)
    num_cores = num_devices * spec.cores_per_device
    if len(cores) < num_cores:
        raise ValueError(
            f"{num_cores} cores are needed for devices of {spec.cores_per_device} cores each, this process may use "
            f"{len(cores)}; lower num_gpus or cores_per_device in the machine file"
        )
    near: list[set[int] | None] = [read_near_cores(uuid) for uuid in uuids] if uuids else [None] * num_devices
    return DeviceAssignment(share_cores(cores, near, spec.cores_per_device), uuids)


def share_among_devices(spec: LaunchSpec, cores: list[list[int]]) -> list[list[int]]:
    """Return the cores of each CPU device on a node; none if the devices are GPUs.

    cores: of each device, or one list with those of all if nobody knows which of them a device uses.
    """
    if spec.device_kind != "cpu":
        return []
    return cores if len(cores) == spec.devices_per_node else cores[:1] * spec.devices_per_node


def describe_topology(assignment: DeviceAssignment) -> dict:
    """Return the cores of each device, its GPU, and how the GPUs are connected; see `topology` of run.schema.yaml."""
    nodes = list_numa_nodes()
    devices: list[dict] = [
        {"cores": cores, "numa_nodes": [number for number, own in nodes.items() if own & set(cores)]}
        for cores in assignment.cores_by_device
    ]
    gpus = [describe_gpu(uuid) for uuid in assignment.gpu_uuids]
    return {"cores": devices, "gpus": gpus, "links": describe_links(assignment.gpu_uuids)}


def describe_host(gpu_uuids: list[str]) -> dict:
    """Return host name, processor, GPUs and their driver, and the commit of the code."""
    description = {
        "hostname": socket.gethostname(),
        "cpu_model": read_cpu_model(),
        "python_version": platform.python_version(),
        "driver_version": None,
        "gpu_uuids": gpu_uuids,
        "git_commit": _git_commit(),
    }
    if gpu_uuids:
        with suppress(pynvml.NVMLError):
            description["driver_version"] = pynvml.nvmlSystemGetDriverVersion()
    return description


def read_cpu_model() -> str:
    """Return the name of the processor."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def _git_commit() -> str | None:
    """Return the commit of the working directory, with `-dirty` if tracked files differ; None outside git."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    with suppress(OSError):
        result = subprocess.run(command, capture_output=True, text=True)
        if result.returncode == 0:
            return result.stdout.strip()
    return None
