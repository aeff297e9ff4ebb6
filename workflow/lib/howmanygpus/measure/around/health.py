"""
Read the state of a node and of its GPUs before a run. Nothing is set, and nothing is judged here (see report.tables).

What cannot be read is left out, and `missing` names it.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pynvml

from howmanygpus.measure.host.gpus import get_board, read_throttle_reasons
from howmanygpus.measure.host.limits import compute_free_bytes, read_memory_bytes
from howmanygpus.measure.host.other_work import list_run_processes, read_busy_s, read_cpu_s

GIB = 2**30
WINDOWS_S = (0.1, 0.5)
"""Time in which the use of the run's cores is observed, and the time if others seem to use them.

The kernel counts in hundredths of a second, so that a short task looks like much work in the first one.
"""
QUIET_FRAC = 0.1
"""Share of the cores' time up to which the first time is enough."""
MAX_SAMPLED_CORES = 8
"""Number of cores whose clocks are read. Some kernels take 10 ms for each core that sleeps."""
CPUFREQ = Path("/sys/devices/system/cpu")
HOST = "host"
"""Name of the host in `missing`."""
REFUSALS = (pynvml.NVMLError, pynvml.NVMLLibraryMismatchError)
"""What NVML raises for a question that the device, the driver or the permissions do not answer."""


def try_to_read_health(*arguments: Any) -> dict[str, Any]:
    """Return the entry `health` with its key, or nothing if the host does not let it be read, and say so.

    The arguments are those of read_health.
    """
    try:
        return {"health": read_health(*arguments)}
    # Not every exception, because the launcher's signals are exceptions too.
    except (OSError, AttributeError, LookupError, RuntimeError, ValueError, psutil.Error, *REFUSALS) as error:
        print(f"health: not read: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        return {}


def read_health(gpu_uuids: Sequence[str], cores: Sequence[int], marker: str | None = None) -> dict[str, Any]:
    """Return the entry `health` of a run's record, whose keys run.schema.yaml explains.

    gpu_uuids, cores: those of the run on this node. marker: an argument that all processes of the run have, if some of
    them have already started on this node; their work does not count as that of others.
    """

    def list_own() -> list[psutil.Process]:
        return [psutil.Process()] if marker is None else list_run_processes(marker)

    began, own = time.monotonic(), list_own()
    busy_before_s, own_before_s = read_busy_s(set(cores)), read_cpu_s(own)
    gpus = [read_gpu(uuid) for uuid in gpu_uuids]
    host, missing = read_host(cores)
    for window_s in WINDOWS_S:
        time.sleep(max(0.0, window_s - (time.monotonic() - began)))
        own_s = read_cpu_s(own if marker is None else list_own()) - own_before_s
        busy_s, elapsed_s = read_busy_s(set(cores)) - busy_before_s, time.monotonic() - began
        other_frac = max(0.0, busy_s - own_s) / (elapsed_s * len(cores))
        if other_frac <= QUIET_FRAC:
            break
    host |= {"other_cpu_frac": round(other_frac, 4), "observed_s": round(elapsed_s, 3)}
    for gpu, _ in gpus:
        drop_passing_reasons(gpu)
    named = {HOST: missing, **{gpu["uuid"]: not_read for gpu, not_read in gpus}}
    return {
        "host": host,
        "gpus": [gpu for gpu, _ in gpus],
        "missing": {name: fields for name, fields in named.items() if fields},
    }


def read_gpu(uuid: str) -> tuple[dict[str, Any], list[str]]:
    """Return what NVML says about a GPU or a part of one, and the names of the fields that it does not give.

    The memory and the processes are those of the part, everything else is that of its GPU.
    """
    facts: dict[str, Any] = {"uuid": uuid}
    missing: list[str] = []
    for names, read in list_questions(uuid):
        try:
            values = read()
        except REFUSALS:
            missing += names
        else:
            facts |= zip(names, values, strict=True)
    return facts, missing


def drop_passing_reasons(gpu: dict[str, Any]) -> None:
    """Keep the throttle reasons that NVML still gives, because it may give one only while clocks change (NVML API).

    gpu: as read_gpu returns it.
    """
    if "throttle_reasons" not in gpu:
        return
    with suppress(*REFUSALS):
        now = read_throttle_reasons(get_board(gpu["uuid"])).split()
        gpu["throttle_reasons"] = " ".join(word for word in gpu["throttle_reasons"].split() if word in now)


def list_questions(uuid: str) -> Iterator[tuple[tuple[str, ...], Callable[[], Sequence[Any]]]]:
    """Yield the fields of a GPU with a function that reads them. Each asks NVML for one thing."""

    def handle():
        return pynvml.nvmlDeviceGetHandleByUUID(uuid)

    def board():
        return get_board(uuid)

    sm, memory = pynvml.NVML_CLOCK_SM, pynvml.NVML_CLOCK_MEM
    volatile = (pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC)
    slowdown = pynvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN
    yield ("name",), lambda: [pynvml.nvmlDeviceGetName(handle())]
    yield ("memory_total_gib", "memory_free_gib"), lambda: _describe_memory(pynvml.nvmlDeviceGetMemoryInfo(handle()))
    yield ("processes",), lambda: [_describe_processes(pynvml.nvmlDeviceGetComputeRunningProcesses(handle()))]
    yield ("temperature_c",), lambda: [pynvml.nvmlDeviceGetTemperature(board(), pynvml.NVML_TEMPERATURE_GPU)]
    yield ("temperature_slowdown_c",), lambda: [pynvml.nvmlDeviceGetTemperatureThreshold(board(), slowdown)]
    yield ("performance_state",), lambda: [pynvml.nvmlDeviceGetPerformanceState(board())]
    yield ("sm_clock_mhz",), lambda: [pynvml.nvmlDeviceGetClockInfo(board(), sm)]
    yield ("sm_clock_max_mhz",), lambda: [pynvml.nvmlDeviceGetMaxClockInfo(board(), sm)]
    yield ("memory_clock_mhz",), lambda: [pynvml.nvmlDeviceGetClockInfo(board(), memory)]
    yield ("memory_clock_max_mhz",), lambda: [pynvml.nvmlDeviceGetMaxClockInfo(board(), memory)]
    yield ("sm_clock_set_mhz",), lambda: [pynvml.nvmlDeviceGetApplicationsClock(board(), sm)]
    yield ("sm_clock_default_mhz",), lambda: [pynvml.nvmlDeviceGetDefaultApplicationsClock(board(), sm)]
    yield ("throttle_reasons",), lambda: [read_throttle_reasons(board())]
    yield ("power_w",), lambda: [pynvml.nvmlDeviceGetPowerUsage(board()) / 1000]
    yield ("power_limit_w",), lambda: [pynvml.nvmlDeviceGetEnforcedPowerLimit(board()) / 1000]
    yield ("power_limit_default_w",), lambda: [pynvml.nvmlDeviceGetPowerManagementDefaultLimit(board()) / 1000]
    yield ("uncorrected_errors",), lambda: [pynvml.nvmlDeviceGetTotalEccErrors(board(), *volatile)]
    yield (
        ("remapped_rows", "remapping_pending", "remapping_failed"),
        lambda: _describe_remapping(*pynvml.nvmlDeviceGetRemappedRows(board())),
    )
    yield ("pcie_width",), lambda: [pynvml.nvmlDeviceGetCurrPcieLinkWidth(board())]
    yield ("pcie_width_max",), lambda: [pynvml.nvmlDeviceGetMaxPcieLinkWidth(board())]


def _describe_memory(memory) -> tuple[float, float]:
    if not memory.total:
        # Some drivers answer zero for a GPU that shares the host's memory.
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
    return round(memory.total / GIB, 3), round((memory.total - memory.used) / GIB, 3)


def _describe_processes(processes: list) -> list[dict[str, Any]]:
    """Return process ID, name and GPU memory of processes, as far as this host and the driver tell them."""
    described = []
    for process in processes:
        facts: dict[str, Any] = {"pid": process.pid}
        # A process of another container has a number that means nothing here.
        with suppress(psutil.Error):
            facts["name"] = psutil.Process(process.pid).name()
        if getattr(process, "usedGpuMemory", None) is not None:
            facts["memory_gib"] = round(process.usedGpuMemory / GIB, 3)
        described.append(facts)
    return described


def _describe_remapping(corrected: int, uncorrected: int, is_pending: int, has_failed: int) -> tuple[int, bool, bool]:
    """Return the number of memory rows that were replaced, and whether a replacement is pending or has failed."""
    return corrected + uncorrected, bool(is_pending), bool(has_failed)


def read_host(cores: Sequence[int]) -> tuple[dict[str, Any], list[str]]:
    """Return load, memory, and clocks of the host, and the names of the fields that it does not give."""
    memory, swap = psutil.virtual_memory(), psutil.swap_memory()
    limit, free = read_memory_bytes(), compute_free_bytes()
    facts: dict[str, Any] = {
        "hostname": os.environ.get("SLURMD_NODENAME") or os.uname().nodename,
        "load_1min": round(os.getloadavg()[0], 2),
        "num_cores": os.cpu_count() or 1,
        "memory_total_gib": round(memory.total / GIB, 3),
        "memory_available_gib": round(memory.available / GIB, 3),
        "memory_limit_gib": round(limit / GIB, 3),
        "memory_free_in_limit_gib": round(free / GIB, 3),
        "swap_used_gib": round(swap.used / GIB, 3),
        "swap_total_gib": round(swap.total / GIB, 3),
    }
    sampled = list(cores)[:MAX_SAMPLED_CORES]
    clocks = {
        "cpu_clock_mhz": _read_clocks(sampled, "scaling_cur_freq"),
        "cpu_clock_allowed_mhz": _read_clocks(sampled, "scaling_max_freq"),
        "cpu_clock_max_mhz": _read_clocks(sampled, "cpuinfo_max_freq"),
    }
    facts |= {name: min(values) for name, values in clocks.items() if values}
    words = {"cpu_governor": "scaling_governor", "cpu_driver": "scaling_driver"}
    facts |= {name: " ".join(sorted(found)) for name, file in words.items() if (found := _read_words(sampled, file))}
    return facts, [name for name in (*clocks, *words) if name not in facts]


def _read_words(cores: Sequence[int], file: str) -> set[str]:
    """Return the different contents of a file that each core has in sysfs (kernel documentation, cpufreq.rst)."""
    found = set()
    for core in cores:
        with suppress(OSError):
            found.add((CPUFREQ / f"cpu{core}" / "cpufreq" / file).read_text().strip())
    return found


def _read_clocks(cores: Sequence[int], file: str) -> list[float]:
    """Return clocks in MHz; the kernel writes kHz, or a word if it does not know."""
    return [int(text) / 1000 for text in _read_words(cores, file) if text.isdigit()]
