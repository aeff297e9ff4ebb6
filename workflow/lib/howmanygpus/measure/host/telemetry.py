"""
Sample what the devices and the hosts do during a run, into telemetry.csv, and notice if all of it was frozen.

On one machine the launcher takes the samples. On a cluster, the first process of each node starts this module as a
program, and the launcher merges the nodes' files.
"""

import argparse
import csv
import threading
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pynvml

from howmanygpus.measure.host.processes import Suspensions, describe_suspension, read_core_wait_s, wait_for_end

COLUMNS = (
    *("time_s", "node", "device", "utilisation_frac", "memory_gib", "power_w", "energy_j"),
    *("temperature_c", "sm_clock_mhz", "memory_clock_mhz", "throttle_reasons"),
    *("pcie_rx_gib_per_s", "pcie_tx_gib_per_s", "nvlink_rx_gib_per_s", "nvlink_tx_gib_per_s"),
    *("cores_frac", "disk_read_gib_per_s", "disk_write_gib_per_s", "network_rx_gib_per_s", "network_tx_gib_per_s"),
)
GIB = 2**30
SILENCE_S = 30.0
"""A working sampler writes each second; clocks of nodes differ, and network file systems write late."""


FROZEN_S = 1.0
"""Shortest delay of a sample that counts as a gap, without the wait of the sampler's thread for a core."""


class ProcessTree:
    """CPU time and resident memory of a process and its descendants. num_cores: cores of the run on this node.

    The search for descendants reads all of /proc, so it is done at every tenth sample only.
    """

    name = "cpu"
    samples_per_search = 10

    def __init__(self, pid: int, num_cores: int):
        self._root, self._num_cores = psutil.Process(pid), num_cores
        self._last: dict[psutil.Process, float] = {}
        self._last_time = time.monotonic()
        self._num_samples = 0
        self._processes: list[psutil.Process] = []

    def _list_processes(self) -> None:
        if self._num_samples % self.samples_per_search == 0:
            with suppress(psutil.NoSuchProcess):
                self._processes = [self._root, *self._root.children(recursive=True)]
        self._num_samples += 1

    def sample(self) -> dict:
        used, memory, now = {}, 0, time.monotonic()
        self._list_processes()
        for process in self._processes:
            with suppress(psutil.NoSuchProcess):
                used[process] = sum(process.cpu_times()[:2])
                memory += process.memory_info().rss
        busy_s = sum(seconds - self._last.get(process, 0.0) for process, seconds in used.items())
        frac = busy_s / ((now - self._last_time) * self._num_cores)
        self._last, self._last_time = used, now
        return {"utilisation_frac": round(frac, 4), "memory_gib": round(memory / GIB, 4)}


class NvmlDevice:
    """One NVIDIA device. utilisation_frac is NVML's: the share of the sample period in which any kernel ran."""

    def __init__(self, uuid: str):
        pynvml.nvmlInit()
        self._handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        self.name = uuid

    def sample(self) -> dict:
        values = {}
        with suppress(pynvml.NVMLError):
            values["utilisation_frac"] = pynvml.nvmlDeviceGetUtilizationRates(self._handle).gpu / 100
        with suppress(pynvml.NVMLError):
            values["memory_gib"] = round(pynvml.nvmlDeviceGetMemoryInfo(self._handle).used / GIB, 4)
        with suppress(pynvml.NVMLError):
            values["power_w"] = pynvml.nvmlDeviceGetPowerUsage(self._handle) / 1000
        with suppress(pynvml.NVMLError):
            values["energy_j"] = pynvml.nvmlDeviceGetTotalEnergyConsumption(self._handle) / 1000
        return values


class Telemetry:
    """Sample every source each `interval_s` seconds in a thread, until the block is left.

    If a source fails, the traceback is left beside the file, and `find_problem` tells. If a sample is late although
    the thread did not wait for a core, everything on this node may have been frozen, and `compute_longest_gap` tells.
    """

    def __init__(self, path: Path, sources: list, node: int = 0, interval_s: float = 1.0):
        self._path, self._sources, self._node, self._interval_s = path, sources, node, interval_s
        self._stop, self._own = threading.Event(), Suspensions()
        self._thread = threading.Thread(target=self._run, name="telemetry", daemon=True)

    def _run(self) -> None:
        try:
            self._sample()
        except Exception:
            get_problem_path(self._path).write_text(traceback.format_exc())

    def _sample(self) -> None:
        started = time.monotonic()
        with open(self._path, "w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            while not self._wait():
                elapsed_s = round(time.monotonic() - started, 3)
                for source in self._sources:
                    writer.writerow({"time_s": elapsed_s, "node": self._node, "device": source.name, **source.sample()})
                file.flush()

    def _wait(self) -> bool:
        """Wait until the next sample, which may be a gap; return whether it is not wanted."""
        waited_before, began = read_core_wait_s(), time.monotonic()
        is_stopped = self._stop.wait(self._interval_s)
        late_s = time.monotonic() - began - self._interval_s - (read_core_wait_s() - waited_before)
        if late_s > FROZEN_S:
            with open(get_gaps_path(self._path), "a") as file:
                file.write(f"{time.time()} {late_s}\n")
        return is_stopped

    def __enter__(self) -> "Telemetry":
        self._own.__enter__()
        self._thread.start()
        return self

    def __exit__(self, *_) -> None:
        self._stop.set()
        self._thread.join()
        self._own.__exit__()
        # This process was stopped, perhaps it alone; the others count their own stops.
        if self._own.stops:
            get_gaps_path(self._path).unlink(missing_ok=True)


def create_samplers(pid: int, num_cores: int, gpu_uuids: list[str]) -> list:
    """Return the sources to sample on a node: the process tree of `pid`, and each GPU."""
    return [ProcessTree(pid, num_cores), *(NvmlDevice(uuid) for uuid in gpu_uuids)]


def get_node_path(folder: Path, node: int) -> Path:
    """Return the path of a node's file."""
    return Path(folder) / f"telemetry.node{node}.csv"


def get_problem_path(path: Path) -> Path:
    """Return the path of the traceback of a sampler that failed. path: the node's file."""
    return path.with_suffix(".problem.txt")


def get_gaps_path(path: Path) -> Path:
    """Return the path of a sampler's gaps: end (seconds since 1970) and duration of each. path: the node's file."""
    return path.with_suffix(".gaps.txt")


def compute_longest_gap(folder: Path, began_at: float) -> float:
    """Return the seconds of the longest gap of any node's samples that ended after a moment; 0 without one.

    folder: of the attempt.
    """
    lines = [line for path in Path(folder).rglob("telemetry.node*.gaps.txt") for line in path.read_text().splitlines()]
    gaps = [tuple(map(float, line.split())) for line in lines]
    return max((late_s for ended_at, late_s in gaps if ended_at > began_at), default=0.0)


def find_problem(folder: Path, num_nodes: int, ended_at: float) -> str | None:
    """Return why the samples of some node are incomplete; None if each node's sampler worked until the end.

    ended_at: when the processes ended, in seconds since 1970. A sampler that reported no problem counts as dead if its
    file was last written more than SILENCE_S before.
    """
    for node in range(num_nodes):
        path = get_node_path(folder, node)
        if get_problem_path(path).exists():
            return f"the sampler of node {node} failed: {get_problem_path(path).read_text().strip().splitlines()[-1]}"
        if not path.exists():
            return f"the sampler of node {node} took no sample"
        if (silence_s := ended_at - path.stat().st_mtime) > SILENCE_S:
            return f"the sampler of node {node} took no sample in the last {silence_s:.0f} s"
    return None


def merge_nodes(folder: Path, path: Path) -> None:
    """Merge the nodes' files of `folder`, in the order of nodes. Without any, only the header is written."""
    parts = [part.read_text().splitlines(keepends=True) for part in sorted(Path(folder).glob("telemetry.node*.csv"))]
    # A lost node may have left half a line.
    lines = [line for part in parts for line in part[1:] if line.endswith("\n")]
    path.write_text(",".join(COLUMNS) + "\n" + "".join(lines))


def check_frozen(outcome: dict[str, Any], folder: Path, started_at: float) -> dict[str, Any]:
    """Return the outcome of an attempt, which is `suspended` if everything on a node was frozen while it trained.

    folder: the attempt's folder. started_at: start of its processes, in seconds since 1970.
    """
    frozen_s = compute_longest_gap(folder, started_at + (outcome.get("init_s") or 0.0))
    if not frozen_s or outcome["status"] != "completed" or "measured_s" not in outcome:
        return outcome
    return outcome | describe_suspension(f"nothing on one of its nodes went on for {frozen_s:.3g} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="folder of this node's file")
    parser.add_argument("--node", type=int, required=True)
    parser.add_argument("--pid", type=int, required=True, help="process to watch, with its descendants, until it ends")
    parser.add_argument("--num-cores", type=int, required=True, help="cores that the run has on this node")
    parser.add_argument("--gpu-uuids", nargs="*", default=[])
    arguments = parser.parse_args()
    path = get_node_path(arguments.folder, arguments.node)
    try:
        sources = create_samplers(arguments.pid, arguments.num_cores, arguments.gpu_uuids)
    except Exception:
        get_problem_path(path).write_text(traceback.format_exc())
        raise
    with Telemetry(path, sources, arguments.node):
        if wait_for_end(arguments.pid) is None:
            psutil.Process(arguments.pid).wait()


if __name__ == "__main__":
    main()
