"""What the samples of a run tell about its devices and hosts in the measured windows."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from howmanygpus.report.telemetry import ACTIVITY, HOST, is_cpu, is_gpu, lacks

HOST_MEANS = {
    "host_utilisation_frac": "utilisation_frac",
    **{f"{what}_gib_per_s": f"{what}_gib_per_s" for what in ("disk_read", "disk_write", "network_rx", "network_tx")},
}
USED = (
    *("time_s", "node", "device", "memory_gib", "power_w", "energy_j", "temperature_c", "sm_clock_mhz"),
    *("throttle_reasons", *ACTIVITY, *HOST_MEANS.values()),
)
"""Columns of the samples that are looked at."""
SLOWED = {"sw_power_cap", "hw_slowdown", "sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown"}
"""Reasons for lower clocks that are neither a choice of the user nor a lack of work."""
MODULES = re.compile(r"\bG[HB][23]00\b")
"""Cards that share a module with a processor of NVIDIA. The counter of energy of a GH200 has the whole module, with the
processor and its memory (ml-energy/zeus, pull request 172); the others have the same interface (C2C)."""
COVERED_FRAC = 0.9
"""Least share of the measured time between the first and the last sample of a counter that tells the energy."""


@dataclass(frozen=True)
class MeasuredTime:
    """The measured windows of a run, in ascending order, on the clock of its samples. num_images: trained in them."""

    begins: np.ndarray
    ends: np.ndarray
    num_images: float

    @classmethod
    def read(cls, record: dict, events: Iterable[dict]) -> "MeasuredTime":
        windows = [event for event in events if event["event"] == "window" and event["phase"] == "train"]
        batch = record["spec"]["global_batch_size"]
        ends = np.array([window["wall_s"] for window in windows], float)
        begins = ends - np.array([window["elapsed_s"] for window in windows], float)
        return cls(begins, ends, sum(window.get("samples", window["num_steps"] * batch) for window in windows))

    @property
    def seconds(self) -> float:
        return float((self.ends - self.begins).sum())

    def contains(self, times: np.ndarray) -> np.ndarray:
        """Return whether each time is in a window."""
        position = np.searchsorted(self.begins, times) - 1
        return (position >= 0) & (times <= self.ends[position])


@dataclass(frozen=True)
class Series:
    """The samples of one device that have a column, as arrays.

    weights: seconds since the sample before, which a sample tells about. inside: whether it is in a measured window.
    """

    times: np.ndarray
    values: np.ndarray
    weights: np.ndarray
    inside: np.ndarray

    @property
    def measured(self) -> np.ndarray:
        return self.values[self.inside]

    def compute_mean(self) -> float:
        """Return the mean of the measured values; nan without any."""
        return float(np.average(self.measured, weights=self.weights[self.inside])) if self.inside.any() else np.nan


@dataclass(frozen=True)
class DeviceSamples:
    """The samples of one device or host of a run, and the run's measured time.

    columns: those of all samples of the run, an array for each. rows: indices of the samples of this device.
    """

    node: int
    device: str
    columns: dict[str, np.ndarray]
    rows: np.ndarray
    measured: MeasuredTime

    def __getitem__(self, column: str) -> np.ndarray:
        return self.columns[column][self.rows]

    def select(self, column: str) -> Series:
        known = pd.notna(self[column])
        times, values = (self[name][known] for name in ("time_s", column))
        gaps = np.diff(times)
        weights = np.concatenate([[np.median(gaps) if len(gaps) else 1.0], gaps])[: len(times)]
        return Series(times, values, weights, self.measured.contains(times))

    def compute_mean(self, column: str) -> float:
        """Return the mean of a column in the measured windows; nan if no sample has it."""
        return self.select(column).compute_mean()

    def find_ends(self, column: str) -> tuple[float, float]:
        """Return the first and the last value of a column in the measured windows; nan without any."""
        values = self.select(column).measured
        return (values[0], values[-1]) if len(values) else (np.nan, np.nan)

    def find_slowdowns(self) -> tuple[float, set[str]]:
        """Return the share of measured time in which clocks were lower for one of the reasons SLOWED, and which."""
        timed = replace(self, rows=self.rows[pd.notna(self["sm_clock_mhz"])])
        known = timed.select("throttle_reasons")
        codes, texts = pd.factorize(known.values)
        reasons = [SLOWED & set(text.split()) for text in texts]
        is_slowed = np.array([bool(words) for words in reasons], bool)[codes]
        seen = {word for code in np.unique(codes[known.inside]) for word in reasons[code]}
        return Series(known.times, is_slowed, known.weights, known.inside).compute_mean(), seen

    def compute_energy_j(self) -> float:
        """Return the energy of the measured windows by the device's counter; nan if it does not tell.

        What lies before its first or after its last sample is taken to be like the rest.
        """
        counter = self.select("energy_j")
        if len(counter.values) < 2 or (np.diff(counter.values) < 0).any():
            return np.nan
        begins, ends = (np.clip(times, *counter.times[[0, -1]]) for times in (self.measured.begins, self.measured.ends))
        covered_s = float((ends - begins).sum())
        if covered_s < COVERED_FRAC * self.measured.seconds:
            return np.nan
        first, last = (np.interp(times, counter.times, counter.values) for times in (begins, ends))
        return float((last - first).sum()) * self.measured.seconds / covered_s


def describe_samples(samples: pd.DataFrame, measured: MeasuredTime, record: dict) -> dict[str, Any]:
    """Return what the samples of a run tell. record: its run.json."""
    on_cpu = record["spec"]["device_kind"] == "cpu"
    every = split_devices(samples, measured)
    is_device = (is_cpu if on_cpu else is_gpu)(pd.Series([each.device for each in every], dtype=object))
    devices = [each for each, is_one in zip(every, is_device, strict=True) if is_one]
    hosts = [each for each in every if each.device == HOST]
    memory_gib = np.concatenate([[np.nan], *(device["memory_gib"] for device in devices)])
    means = [device.compute_mean("utilisation_frac") for device in devices]
    row: dict[str, Any] = {
        "utilisation_frac": _mean(means),
        "utilisation_frac_lowest": np.min(means) if means else None,
        "utilisation_frac_highest": np.max(means) if means else None,
        "memory_gib_highest": np.fmax.reduce(memory_gib),
        **{name: _mean(host.compute_mean(column) for host in hosts) for name, column in HOST_MEANS.items()},
    }
    if on_cpu:
        return row | describe_energy(hosts, record["spec"]["num_nodes"], "processors", measured)
    if not any(each.device.startswith("MIG-") for each in every):
        counted = "module" if MODULES.search(record.get("device_model") or "") else "counter"
        row |= describe_energy(devices, record["spec"]["num_gpus"], counted, measured)
    row |= {column: _mean(device.compute_mean(column) for device in devices) for column in ACTIVITY}
    return row | describe_clocks(devices, record)


def split_devices(samples: pd.DataFrame, measured: MeasuredTime) -> list[DeviceSamples]:
    """Return the samples of each device and host, in the order of their first samples."""
    columns = {name: values.to_numpy() for name, values in samples.items()}
    groups = samples.groupby(["node", "device"], sort=False).indices
    return [
        DeviceSamples(int(node), device, columns, rows, measured)
        for (node, device), rows in sorted(groups.items(), key=lambda group: group[1][0])
    ]


def _mean(values: Iterable[float]) -> float:
    """Return the mean; nan if one is unknown, or if there are none."""
    found = list(values)
    return float(np.mean(found)) if found else np.nan


def describe_energy(sources: list[DeviceSamples], number: int, counted: str, measured: MeasuredTime) -> dict[str, Any]:
    """Return power and energy, if each of `number` sources tells it. counted: the word for their counters."""
    if len(sources) != number:
        return {}
    power_w = sum(source.compute_mean("power_w") for source in sources)
    by_counter, by_power = sum(source.compute_energy_j() for source in sources), power_w * measured.seconds
    energy_j, energy_from = (by_counter, counted) if np.isfinite(by_counter) else (by_power, "power")
    if not np.isfinite(energy_j) or energy_j <= 0:
        return {"power_w": power_w}
    return {
        "power_w": power_w,
        "joules_per_image": energy_j / measured.num_images,
        "images_per_joule": measured.num_images / energy_j,
        "energy_from": energy_from,
    }


def describe_clocks(gpus: list[DeviceSamples], record: dict) -> dict[str, Any]:
    """Return clocks, temperatures and throttling. record: the run.json."""
    row: dict[str, Any] = {}
    for column in ("sm_clock_mhz", "temperature_c"):
        ends = [gpu.find_ends(column) for gpu in gpus]
        row |= {f"{column}_begin": _mean(begin for begin, _ in ends), f"{column}_end": _mean(end for _, end in ends)}
    if lacks(record, "throttle_reasons"):
        return row
    found = [gpu.find_slowdowns() for gpu in gpus]
    shares = [share for share, _ in found]
    seen = set().union(*(words for _, words in found))
    row |= {"throttled_frac": _mean(shares), "throttle_reasons": " ".join(sorted(seen)) or None}
    if seen:
        most = int(np.nanargmax(shares))
        row |= {"throttled_frac_highest": shares[most], "most_throttled": f"{gpus[most].node}:{gpus[most].device}"}
    return row
