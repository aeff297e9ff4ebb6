"""NVIDIA GPUs and their parts (MIG), as NVML reports them: which are visible, their names, memory, place and links."""

import os
from contextlib import suppress
from itertools import combinations
from typing import Any

import pynvml

from howmanygpus.measure.host.processes import list_numa_nodes

GIB = 2**30
LINKS = {
    pynvml.NVML_TOPOLOGY_INTERNAL: "same board",
    pynvml.NVML_TOPOLOGY_SINGLE: "one PCIe switch",
    pynvml.NVML_TOPOLOGY_MULTIPLE: "several PCIe switches",
    pynvml.NVML_TOPOLOGY_HOSTBRIDGE: "one PCIe host bridge",
    pynvml.NVML_TOPOLOGY_NODE: "one NUMA node",
    pynvml.NVML_TOPOLOGY_SYSTEM: "several NUMA nodes",
}
"""Nearest common ancestor of two GPUs (nvmlGpuTopologyLevel_t)."""
THROTTLE_REASONS = {
    pynvml.nvmlClocksThrottleReasonGpuIdle: "gpu_idle",
    pynvml.nvmlClocksThrottleReasonApplicationsClocksSetting: "applications_clocks_setting",
    pynvml.nvmlClocksThrottleReasonSwPowerCap: "sw_power_cap",
    pynvml.nvmlClocksThrottleReasonHwSlowdown: "hw_slowdown",
    pynvml.nvmlClocksThrottleReasonSyncBoost: "sync_boost",
    pynvml.nvmlClocksThrottleReasonSwThermalSlowdown: "sw_thermal_slowdown",
    pynvml.nvmlClocksThrottleReasonHwThermalSlowdown: "hw_thermal_slowdown",
    pynvml.nvmlClocksThrottleReasonHwPowerBrakeSlowdown: "hw_power_brake_slowdown",
    pynvml.nvmlClocksThrottleReasonDisplayClockSetting: "display_clock_setting",
}
"""Reasons for which a GPU's clocks are below their maximum (nvmlClocksEventReasons)."""


def list_gpu_uuids() -> list[str]:
    """Return UUIDs of the NVIDIA devices that CUDA_VISIBLE_DEVICES allows, in its order; empty without a driver.

    A number is the one that nvidia-smi shows, by PCI address. An entry that names no device ends the list, as in CUDA.
    A GPU that is split (MIG) is replaced by its parts, because CUDA programs cannot use it as a whole. An entry may
    name a part by its UUID. A number names all parts of that GPU; CUDA itself would take only the first.
    """
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return []
    handles = _list_handles()
    uuids, parts = [pynvml.nvmlDeviceGetUUID(handle) for handle in handles], [_list_parts(each) for each in handles]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return [part for each in parts for part in each]
    chosen: list[str] = []
    for entry in map(str.strip, visible.split(",")):
        found: list[str] = []
        for index, (uuid, own) in enumerate(zip(uuids, parts, strict=True)):
            is_whole = index == int(entry) if entry.isdigit() else bool(entry) and uuid.startswith(entry)
            found += own if is_whole else [part for part in own if entry and part.startswith(entry)]
        if not found:
            break
        chosen += found
    return chosen


def _list_handles() -> list:
    """Return the handles of the GPUs that this process may use; NVML also counts GPUs that a cgroup denies it."""
    handles = []
    for index in range(pynvml.nvmlDeviceGetCount()):
        with suppress(pynvml.NVMLError_NoPermission):
            handles.append(pynvml.nvmlDeviceGetHandleByIndex(index))
    return handles


def _list_parts(handle) -> list[str]:
    """Return the UUIDs of a GPU's parts, or its own if it is not split."""
    with suppress(pynvml.NVMLError):
        if pynvml.nvmlDeviceGetMigMode(handle)[0]:
            found = []
            for index in range(pynvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
                with suppress(pynvml.NVMLError):
                    found.append(pynvml.nvmlDeviceGetUUID(pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)))
            return found
    return [pynvml.nvmlDeviceGetUUID(handle)]


def get_board(uuid: str):
    """Return NVML's handle of a GPU, or of the GPU to which a part belongs. uuid: UUID of the GPU or the part."""
    handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
    return pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle) if uuid.startswith("MIG-") else handle


def read_compute_capability() -> str | None:
    """Return the compute capability of the first visible GPU, such as "8.0"; None without a GPU."""
    uuids = list_gpu_uuids()
    if not uuids:
        return None
    return ".".join(map(str, pynvml.nvmlDeviceGetCudaComputeCapability(get_board(uuids[0]))))


def read_gpu_name() -> str | None:
    """Return the name of the first visible GPU, for frameworks that do not report it; None without a GPU."""
    uuids = list_gpu_uuids()
    return pynvml.nvmlDeviceGetName(pynvml.nvmlDeviceGetHandleByUUID(uuids[0])) if uuids else None


def read_smallest_memory_gib() -> float | None:
    """Return the smallest memory of all visible GPUs, in GiB; None without a GPU, or if one has none of its own."""
    uuids = list_gpu_uuids()
    sizes = [size for size in map(read_memory_gib, uuids) if size is not None]
    return min(sizes, default=None) if len(sizes) == len(uuids) else None


def read_memory_gib(uuid: str) -> float | None:
    """Return the memory of a GPU or a part in GiB; None for one that shares the host's memory, such as a GB10."""
    with suppress(pynvml.NVMLError_NotSupported):
        # Some drivers answer zero for such a GPU.
        return pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByUUID(uuid)).total / GIB or None
    return None


def read_memory_in_use_frac() -> float | None:
    """Return the fraction of memory that all programs use on the fullest visible GPU; None if no driver reports it."""
    fractions = []
    for uuid in list_gpu_uuids():
        with suppress(pynvml.NVMLError):
            memory = pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByUUID(uuid))
            fractions += [memory.used / memory.total] if memory.total else []
    return max(fractions, default=None)


def read_near_cores(uuid: str) -> set[int]:
    """Return the cores of the NUMA node of a GPU; empty if NVML does not know it."""
    with suppress(pynvml.NVMLError):
        words = pynvml.nvmlDeviceGetCpuAffinity(get_board(uuid), ((os.cpu_count() or 1) + 63) // 64)
        return {64 * word + bit for word, mask in enumerate(words) for bit in range(64) if mask >> bit & 1}
    return set()


def describe_gpu(uuid: str) -> dict:
    """Return UUID, name, PCI address and NUMA nodes of a GPU. uuid: as list_gpu_uuids returns it."""
    near, bus = read_near_cores(uuid), pynvml.nvmlDeviceGetPciInfo(get_board(uuid)).busId
    return {
        "uuid": uuid,
        "name": pynvml.nvmlDeviceGetName(pynvml.nvmlDeviceGetHandleByUUID(uuid)),
        "pci_bus_id": bus.decode() if isinstance(bus, bytes) else bus,
        "numa_nodes": [number for number, cores in list_numa_nodes().items() if cores & near],
    }


def describe_links(uuids: list[str]) -> list[dict]:
    """Return how each pair of GPUs is connected: by NVLink, or by the nearest PCIe ancestor that they share."""
    found = []
    for first, second in combinations(uuids, 2):
        boards = get_board(first), get_board(second)
        link = "unknown"
        with suppress(pynvml.NVMLError):
            level = pynvml.nvmlDeviceGetTopologyCommonAncestor(*boards)
            link = LINKS.get(level, f"level {level}")
        with suppress(pynvml.NVMLError):
            status = pynvml.nvmlDeviceGetP2PStatus(*boards, pynvml.NVML_P2P_CAPS_INDEX_NVLINK)
            link = "NVLink" if status == pynvml.NVML_P2P_STATUS_OK else link
        found.append({"gpus": [first, second], "link": link})
    return found


def describe_throttle_reasons(bits: int) -> str:
    """Write NVML's bits as words, such as `sw_power_cap hw_slowdown`."""
    return " ".join(word for bit, word in THROTTLE_REASONS.items() if bits & bit)


def read_throttle_reasons(board: Any) -> str:
    """Return why a GPU's clocks are below their maximum."""
    try:
        bits = pynvml.nvmlDeviceGetCurrentClocksEventReasons(board)
    except pynvml.NVMLError:
        # The same in drivers before 535.
        bits = pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(board)
    return describe_throttle_reasons(bits)
