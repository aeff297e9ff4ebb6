"""Measure the work of other processes on the run's cores and GPUs of a node while the run is measured."""

import os
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pynvml

MODULE, PROGRAM = "howmanygpus.measure.loop.train", "howmanygpus.measure.program.process"
MIN_TIME_S = 0.5
"""Shortest time for which a share is computed. The kernel counts in hundredths of a second."""
LOOK_EVERY_S = 5.0
"""Time between two looks at the processes on the GPUs, of which each takes less than a millisecond for each GPU."""
BUSY = (0, 1, 2, 7)
"""Columns of a core's line in /proc/stat (proc(5)): user, nice, system, and steal, the time of other machines."""


def read_busy_s(cores: set[int]) -> float:
    """Return the seconds since boot in which the cores ran any process, or another virtual machine (steal)."""
    busy = 0
    for line in Path("/proc/stat").read_text().splitlines():
        name, *ticks = line.split()
        if name.startswith("cpu") and name[3:].isdigit() and int(name[3:]) in cores:
            busy += sum(int(ticks[column]) for column in BUSY if column < len(ticks))
    return busy / os.sysconf("SC_CLK_TCK")


def list_run_processes(marker: str) -> list[psutil.Process]:
    """Return a run's processes on this node: this one, Python with `marker` as an argument, and their descendants."""
    found: dict[int, psutil.Process] = {os.getpid(): psutil.Process()}
    python = os.path.realpath(sys.executable)
    children: dict[int, list[psutil.Process]] = {}
    for process in psutil.process_iter(["ppid", "cmdline", "exe"]):
        children.setdefault(process.info["ppid"], []).append(process)
        words = process.info["cmdline"] or []
        if process.info["exe"] == python and (MODULE in words or PROGRAM in words) and marker in words:
            found[process.pid] = process
    queue = list(found)
    while queue:
        for child in children.get(queue.pop(), []):
            if child.pid not in found:
                found[child.pid] = child
                queue.append(child.pid)
    return list(found.values())


def read_allowed_cores(processes: list[psutil.Process]) -> set[int]:
    """Return the cores that processes may use."""
    cores: set[int] = set()
    for process in processes:
        with suppress(psutil.Error):
            cores |= set(process.cpu_affinity())
    return cores


def read_cpu_s(processes: list[psutil.Process]) -> float:
    """Return the processor time of processes and of their children that have ended."""
    used = 0.0
    for process in processes:
        with suppress(psutil.Error):
            times = process.cpu_times()
            used += times.user + times.system + times.children_user + times.children_system
    return used


def list_gpu_pids(uuids: list[str]) -> set[int]:
    """Return the IDs of the processes that compute on GPUs, as far as the driver reports them."""
    pids: set[int] = set()
    # A driver that is older than the package only has an earlier version of the call.
    with suppress(pynvml.NVMLError, pynvml.NVMLLibraryMismatchError):
        pynvml.nvmlInit()
        for uuid in uuids:
            handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
            pids |= {process.pid for process in pynvml.nvmlDeviceGetComputeRunningProcesses(handle)}
    return pids


class OtherWork:
    """Measures the work of other processes on this node between start and stop.

    marker: an argument that all training processes of the run have. gpu_uuids: GPUs of the run on this node.
    """

    def __init__(self, marker: str, gpu_uuids: list[str]):
        self._marker, self._gpu_uuids = marker, gpu_uuids
        self.cpu_frac: float | None = None
        self.gpu_processes: int | None = None
        self._seen: set[frozenset[int]] = set()
        self._stopped = threading.Event()
        self._looking = threading.Thread(target=self._watch_gpu_processes, name="other work", daemon=True)

    def start(self) -> None:
        own = list_run_processes(self._marker)
        self._cores = read_allowed_cores(own)
        self._own_pids = {process.pid for process in own}
        self._record_gpu_processes()
        if self._gpu_uuids:
            self._looking.start()
        self._before = read_busy_s(self._cores), read_cpu_s(own), time.monotonic()

    def stop(self) -> None:
        """Set cpu_frac: the fraction of the cores' time that other work took; None after less than MIN_TIME_S.

        Set gpu_processes: the largest number of other processes seen on the GPUs at one time; None if the driver does
        not report the run's own, as may be the case in a container.
        """
        own = list_run_processes(self._marker)
        busy_s, own_s, now = read_busy_s(self._cores), read_cpu_s(own), time.monotonic()
        busy_before_s, own_before_s, started = self._before
        self._stopped.set()
        if self._gpu_uuids:
            self._looking.join()
        self._record_gpu_processes()
        self._own_pids |= {process.pid for process in own}
        numbers = [len(pids - self._own_pids) for pids in self._seen if pids & self._own_pids]
        self.gpu_processes = max(numbers, default=None)
        if now - started >= MIN_TIME_S:
            other_s = busy_s - busy_before_s - (own_s - own_before_s)
            self.cpu_frac = max(0.0, other_s) / ((now - started) * len(self._cores))

    def _watch_gpu_processes(self) -> None:
        while not self._stopped.wait(LOOK_EVERY_S):
            self._record_gpu_processes()

    def _record_gpu_processes(self) -> None:
        self._seen.add(frozenset(list_gpu_pids(self._gpu_uuids)))
