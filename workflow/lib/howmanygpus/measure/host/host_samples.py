"""
Samples of a node and of the CPU devices of a run on it.

They are taken while others are measured on the same cores. Values that cost a few microseconds are read at each sample,
and others once a second. Looking for new processes takes at most SEARCH_FRAC of a core, however many threads they have.
"""

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from howmanygpus.measure.host.counters import Counter
from howmanygpus.measure.host.gpus import GIB
from howmanygpus.measure.host.processes import LOCAL_RANKS, OWN_DEVICE

HOST = "host"
"""Device of the rows about a whole node."""
PROC, POWERCAP, INTERFACES = Path("/proc"), Path("/sys/class/powercap"), Path("/sys/class/net")
USE, CPU_COLUMNS = ("utilisation_frac",), ("utilisation_frac", "memory_gib")
HOST_COLUMNS = (
    *("utilisation_frac", "memory_gib", "power_w", "energy_j", "cores_frac"),
    *("disk_read_gib_per_s", "disk_write_gib_per_s", "network_rx_gib_per_s", "network_tx_gib_per_s"),
)
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
IDLE, BUSY = (3, 4), (0, 1, 2, 5, 6, 7)
"""Columns of a core's line in /proc/stat (proc(5)): idle and iowait, and the others without those of guests, which are
counted twice there."""
SEARCH_FRAC, SEARCH_EVERY_S = 0.002, 1.0
"""Share of a core that the search for processes may take, and the shortest time between two searches."""


def read_quickly(path: str) -> bytes:
    """Return the content of a small file of the kernel. pathlib and buffers would take as long again."""
    with open(path, "rb", buffering=0) as file:
        return file.read()


def read_ticks() -> dict[int, tuple[int, int]]:
    """Return for each core how often it was found busy, and how often it was looked at (/proc/stat)."""
    found = {}
    for line in read_quickly(f"{PROC}/stat").splitlines()[1:]:
        if not line.startswith(b"cpu"):
            break
        name, *ticks = line.split()
        busy = sum([int(ticks[column]) for column in BUSY])
        found[int(name[3:])] = busy, busy + sum([int(ticks[column]) for column in IDLE])
    return found


class CoreUse:
    """Utilisation of cores since the last call."""

    def __init__(self) -> None:
        self._last = read_ticks()

    def update(self, ticks: dict[int, tuple[int, int]]) -> dict[int, tuple[int, int]]:
        """Return the ticks of each core since the last call, busy and all. ticks: as read_ticks returns them."""
        last, self._last = self._last, ticks
        return {
            core: (max(0, busy - last[core][0]), max(0, total - last[core][1]))
            for core, (busy, total) in ticks.items()
            if core in last
        }


def compute_use(ticks: list[tuple[int, int]]) -> float | None:
    """Return the utilisation of cores with these ticks, busy and all; None if the kernel counted none."""
    total = sum([each[1] for each in ticks])
    return min(1.0, sum([each[0] for each in ticks]) / total) if total else None


def list_descendants(pid: int) -> list[int]:
    """Return a process and its descendants (proc(5), /proc/PID/task/TID/children).

    Reading the parents of all processes instead takes tens of milliseconds on a node with a thousand of them.
    """
    found = [pid]
    for parent in found:
        with suppress(OSError):
            for thread in (PROC / str(parent) / "task").iterdir():
                with suppress(OSError):
                    found += map(int, (thread / "children").read_bytes().split())
    return found


def read_device(pid: int) -> int | None:
    """Return a process's device on its node, from the variables of its start; None if it has none or is another user's.

    The processes that it forks, such as the workers of a loader, have the same.
    """
    with suppress(OSError):
        variables = dict(
            entry.partition(b"=")[::2] for entry in (PROC / str(pid) / "environ").read_bytes().split(b"\0")
        )
        for name in (OWN_DEVICE, *LOCAL_RANKS):
            if (value := variables.get(name.encode(), b"")).isdigit():
                return int(value)
    return None


class ProcessMemory:
    """Resident memory of the processes of each CPU device. Pages that processes share are counted in each of them.

    pid: process whose descendants are the run's. num_devices: of the run on this node. is_process_each: whether each
    device has processes of its own. Otherwise the memory of all is that of the first device.

    num_alone: number of devices whose memory is known.
    """

    def __init__(self, pid: int, num_devices: int, is_process_each: bool):
        self._pid, self._num_devices, self._is_process_each = pid, num_devices, is_process_each
        self.num_alone = num_devices if is_process_each else 1
        self._processes: dict[int, int] = {}
        self._search_at = 0.0

    def _search(self) -> None:
        """Find the processes of each device. Those that only start others belong to none."""
        began_s = time.thread_time()
        self._processes = {}
        for pid in list_descendants(self._pid):
            device = read_device(pid) if self._is_process_each else 0
            if pid != os.getpid() and device is not None and device < self._num_devices:
                self._processes[pid] = device
        self._search_at = time.monotonic() + max(SEARCH_EVERY_S, (time.thread_time() - began_s) / SEARCH_FRAC)

    def sample(self) -> list[float | None]:
        """Return the memory of each device in GiB; None for a device that shares the processes of the first."""
        if time.monotonic() >= self._search_at:
            self._search()
        pages = [0] * self._num_devices
        for pid, device in self._processes.items():
            with suppress(OSError, IndexError):
                pages[device] += int(read_quickly(f"{PROC}/{pid}/statm").split()[1])
        memory: list[float | None] = [each * PAGE_BYTES / GIB for each in pages]
        return [*memory[: self.num_alone], *[None] * (self._num_devices - self.num_alone)]


class ProcessorEnergy:
    """Energy of all processors and their memory by RAPL (Linux, Documentation/power/powercap).

    problem: why it cannot be read; None if it can.
    """

    def __init__(self) -> None:
        self._zones: list[tuple[Path, Counter]] = []
        self.problem: str | None = None
        names = {path.parent: path.read_text() for path in sorted(POWERCAP.glob("intel-rapl:*/name"))}
        # `psys` contains the others, and the cores are a part of their package.
        zones = [zone for zone, name in names.items() if name.startswith(("package-", "dram"))]
        try:
            for zone in zones:
                size = int((zone / "max_energy_range_uj").read_text())
                (zone / "energy_uj").read_text()
                self._zones.append((zone / "energy_uj", Counter(size)))
        except OSError as error:
            self._zones, self.problem = [], f"{error.filename}: {error.strerror}"
        if not zones:
            self.problem = f"{POWERCAP} has no zone of a processor"

    def sample(self, now_s: float) -> dict[str, float | None]:
        """Return the power since the last call, and the energy since the first; nothing if they cannot be read."""
        if not self._zones:
            return {}
        rates = [counter.update(int(path.read_text()), now_s) for path, counter in self._zones]
        energy_j = sum(counter.total for _, counter in self._zones) / 1e6
        known = [rate for rate in rates if rate is not None]
        return {"energy_j": energy_j, "power_w": sum(known) / 1e6 if len(known) == len(rates) else None}


def list_interfaces() -> set[str]:
    """Return the network interfaces to count: those with hardware, so that none counts twice what passes a bridge.

    Without any, as in a container, all but the loopback.
    """
    names = set(psutil.net_io_counters(pernic=True))
    return {name for name in names if (INTERFACES / name / "device").exists()} or names - {"lo"}


class Traffic:
    """Rates of all disks and of the network of a node, in GiB/s, as the kernel counts them.

    It counts neither what a network file system reads, except as traffic of the network, nor RDMA.
    """

    def __init__(self) -> None:
        self._interfaces = list_interfaces()
        self._counters: dict[str, Counter] = {}

    def _read(self) -> Iterator[tuple[str, int]]:
        # psutil already corrects counters that have begun again.
        if disks := psutil.disk_io_counters():
            yield from (("disk_read_gib_per_s", disks.read_bytes), ("disk_write_gib_per_s", disks.write_bytes))
        interfaces = psutil.net_io_counters(pernic=True)
        if found := [interfaces[name] for name in self._interfaces if name in interfaces]:
            yield "network_rx_gib_per_s", sum(each.bytes_recv for each in found)
            yield "network_tx_gib_per_s", sum(each.bytes_sent for each in found)

    def sample(self, now_s: float) -> dict[str, float | None]:
        """Return the mean rates since the last call, None at the first one; without those that are not counted."""
        rates: dict[str, float | None] = {}
        for column, value in self._read():
            rate = self._counters.setdefault(column, Counter()).update(value, now_s)
            rates[column] = None if rate is None else rate / GIB
        return rates


class Node:
    """The node itself, and the CPU devices of a run on it.

    cores: of each CPU device; empty if the run's devices are GPUs. memory: of their processes.
    """

    def __init__(self, cores: list[list[int]], memory: ProcessMemory | None):
        self._cores, self._memory = cores, memory
        self._use, self._slow_use = CoreUse(), CoreUse()
        self._energy, self._traffic = ProcessorEnergy(), Traffic()
        reason = self._energy.problem
        self.missing = {HOST: {"power_w": reason, "energy_j": reason}} if reason else {}
        self.of_board: dict[str, list[str]] = {}
        alone = memory.num_alone if memory else 0
        self.expected: dict[str, tuple[str, ...]] = {HOST: HOST_COLUMNS}
        for number in range(len(cores)):
            self.expected[f"cpu{number}"] = CPU_COLUMNS if number < alone else USE

    def sample(self, time_s: float, is_slow: bool) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield each device with its values by column. is_slow: whether to read those of once a second too."""
        ticks = read_ticks()
        use = self._use.update(ticks)
        memory = self._memory.sample() if self._memory else []
        for number, (cores, memory_gib) in enumerate(zip(self._cores, memory, strict=True)):
            of_cores = compute_use([use[core] for core in cores if core in use])
            yield f"cpu{number}", {"utilisation_frac": of_cores, "memory_gib": memory_gib}
        values: dict[str, Any] = {"utilisation_frac": compute_use(list(use.values()))}
        if is_slow:
            values |= self._sample_slowly(ticks)
        yield HOST, values

    def _sample_slowly(self, ticks: dict[int, tuple[int, int]]) -> dict[str, Any]:
        of_each, state = self._slow_use.update(ticks), psutil.virtual_memory()
        fractions, now_s = [compute_use([of_each[core]]) for core in sorted(of_each)], time.monotonic()
        return {
            "cores_frac": " ".join("nan" if frac is None else f"{frac:.2f}" for frac in fractions),
            "memory_gib": (state.total - state.available) / GIB,
            **self._energy.sample(now_s),
            **self._traffic.sample(now_s),
        }

    def find_problems(self) -> list[str]:
        return []
