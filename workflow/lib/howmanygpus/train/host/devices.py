"""Choose the devices of a run, and describe them and their host."""

import os
import platform
import socket
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pynvml

from howmanygpus.train.host.processes import list_cores
from howmanygpus.train.spec import RunSpec


@dataclass(frozen=True)
class Assignment:
    """What a run may use on this node. cores: for the whole run; gpu_uuids: in the order of ranks, empty on a CPU."""

    cores: list[int]
    gpu_uuids: list[str]


def list_gpu_uuids() -> list[str]:
    """Return UUIDs of the NVIDIA devices that CUDA_VISIBLE_DEVICES allows, in its order; empty without a driver."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return []
    handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
    uuids = [pynvml.nvmlDeviceGetUUID(handle) for handle in handles]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return uuids
    chosen = []
    for entry in filter(None, visible.split(",")):
        chosen += [uuids[int(entry)]] if entry.isdigit() else [uuid for uuid in uuids if uuid.startswith(entry)]
    return chosen


def list_visible_gpus() -> list[str]:
    """Return the UUIDs that the launcher put into CUDA_VISIBLE_DEVICES."""
    return [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if not name.isdigit() and name]


def find_compute_capability() -> str | None:
    """Return the compute capability of the first visible GPU, such as "8.0"; None without a GPU."""
    uuids = list_gpu_uuids()
    if not uuids:
        return None
    handle = pynvml.nvmlDeviceGetHandleByUUID(uuids[0])
    return ".".join(map(str, pynvml.nvmlDeviceGetCudaComputeCapability(handle)))


def assign_devices(spec: RunSpec, bind_cores: bool = True) -> Assignment:
    """Assign the first cores and GPUs of this node that this process may use; raise ValueError if there are too few.

    Without bind_cores the run keeps all cores, because the scheduler has chosen them.
    """
    num_devices, cores = spec.devices_per_node, list_cores()
    num_cores = num_devices * spec.cores_per_device
    if bind_cores:
        if len(cores) < num_cores:
            raise ValueError(
                f"{num_devices} devices of {spec.cores_per_device} cores need {num_cores} cores, this process may use "
                f"{len(cores)}; lower num_gpus or cores_per_device in the machine file"
            )
        cores = cores[:num_cores]
    if spec.device_kind == "cpu":
        return Assignment(cores, [])
    uuids = list_gpu_uuids()
    if len(uuids) < num_devices:
        raise ValueError(
            f"{num_devices} GPUs are asked for on this node, {len(uuids)} may be used: CUDA_VISIBLE_DEVICES is "
            f"{os.environ.get('CUDA_VISIBLE_DEVICES')!r}"
        )
    return Assignment(cores, uuids[:num_devices])


def describe_host(gpu_uuids: list[str]) -> dict:
    """Return host name, processor, GPUs and their driver, and the commit of the code."""
    description = {
        "hostname": socket.gethostname(),
        "cpu_model": _cpu_model(),
        "python_version": platform.python_version(),
        "driver_version": None,
        "gpu_uuids": gpu_uuids,
        "git_commit": _git_commit(),
    }
    if gpu_uuids:
        with suppress(pynvml.NVMLError):
            description["driver_version"] = pynvml.nvmlSystemGetDriverVersion()
    return description


def _cpu_model() -> str:
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
