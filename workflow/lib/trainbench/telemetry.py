"""telemetry.csv: what the devices and the host did while a run went on, sampled by the launcher."""

import csv
import threading
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pynvml

COLUMNS = ("time_s", "device", "utilisation_frac", "memory_gib", "power_w", "energy_j")
GIB = 2**30


class ProcessTree:
    """CPU time and resident memory of a process and its descendants, over the cores given to the run.

    Looking for descendants reads all of /proc, so it is done at every tenth sample only.
    """

    name = "cpu"
    samples_per_search = 10

    def __init__(self, pid: int, num_cores: int):
        self._root, self._num_cores = psutil.Process(pid), num_cores
        self._last: dict[psutil.Process, float] = {}
        self._last_time = time.monotonic()
        self._num_samples, self._processes = 0, []

    def _find_processes(self) -> None:
        if self._num_samples % self.samples_per_search == 0:
            with suppress(psutil.NoSuchProcess):
                self._processes = [self._root, *self._root.children(recursive=True)]
        self._num_samples += 1

    def sample(self) -> dict:
        used, memory, now = {}, 0, time.monotonic()
        self._find_processes()
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
    """Samples every source each `interval_s` seconds in a thread, until the block is left."""

    def __init__(self, path: Path, sources: list, interval_s: float = 1.0):
        self._path, self._sources, self._interval_s = path, sources, interval_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="telemetry", daemon=True)

    def _run(self) -> None:
        started = time.monotonic()
        with open(self._path, "w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            while not self._stop.wait(self._interval_s):
                elapsed_s = round(time.monotonic() - started, 3)
                for source in self._sources:
                    writer.writerow({"time_s": elapsed_s, "device": source.name, **source.sample()})
                file.flush()

    def __enter__(self) -> "Telemetry":
        self._thread.start()
        return self

    def __exit__(self, *_) -> None:
        self._stop.set()
        self._thread.join()
