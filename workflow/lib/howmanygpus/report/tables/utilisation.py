"""
What the devices and hosts of each run did in its measured windows: utilisation, power, energy, clocks and MFU.

`utilisation_frac` of a GPU is NVML's: the share of a sample period in which any kernel ran, however small a part of the
GPU it used. A value near 1 therefore does not mean that the GPU could do no more. On CPU devices it is the share of
time in which their cores were busy. It is the mean over the run's devices; `_lowest` and `_highest` are of the devices
with the lowest and the highest mean. `memory_gib_highest` is the largest memory in use of any device in the whole run;
of a CPU device, it is that of its processes.

`power_w` is the sum over the devices, and `joules_per_image` counts each device once. `energy_from` says how energy was
measured: `counter` of the GPUs, `power` (mean power times time), or `processors` (RAPL of the whole nodes) on CPUs. All
are empty for a part of a GPU (MIG), because others may use the rest. `throttled_frac` is the share of time in which the
clocks of a GPU were lower because of power, temperature or a brake, as a mean over GPUs, and `throttle_reasons` names
the reasons. `throttled_frac_highest` is that of the most throttled one, which `most_throttled` names as its node's
number and its UUID. Clocks and temperatures are means over GPUs, at begin and end of the measured windows. Values of
the host, its disks and its network are means over nodes; the kernel does not count RDMA as traffic of the network.

`mfu` is the share of the devices' published peak that the network's arithmetic took: images/s times multiply-adds of
the network, times 3 for forward and backward pass, times 2 operations, over the peak of all devices.
`telemetry_problem` says why samples are incomplete. Values that were not sampled or are not known are empty.
"""

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from howmanygpus.measure.input.description import DESCRIPTION, read_description
from howmanygpus.report.columns import IDENTITY
from howmanygpus.report.outcomes import read_outcomes
from howmanygpus.report.tables.helpers.multiply_adds import compute_flops_per_image, count_multiply_adds
from howmanygpus.report.tables.helpers.peak_rates import find_peak
from howmanygpus.report.telemetry import HOST, find_problem, is_cpu, is_gpu, lacks, read_telemetry

READS = ("results",)
IS_MERGED = True
COLUMNS = (
    *IDENTITY,
    *("utilisation_frac", "utilisation_frac_lowest", "utilisation_frac_highest", "memory_gib_highest"),
    *("power_w", "joules_per_image", "images_per_joule", "energy_from"),
    *("sm_clock_mhz_begin", "sm_clock_mhz_end", "temperature_c_begin", "temperature_c_end"),
    *("throttled_frac", "throttled_frac_highest", "most_throttled", "throttle_reasons", "multiply_adds", "mfu"),
    *("host_utilisation_frac", "disk_read_gib_per_s", "disk_write_gib_per_s"),
    *("network_rx_gib_per_s", "network_tx_gib_per_s", "telemetry_problem"),
)
HOST_MEANS = {
    "host_utilisation_frac": "utilisation_frac",
    **{f"{what}_gib_per_s": f"{what}_gib_per_s" for what in ("disk_read", "disk_write", "network_rx", "network_tx")},
}
SLOWED = {"sw_power_cap", "hw_slowdown", "sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown"}
"""Reasons for lower clocks that are neither a choice of the user nor a lack of work."""
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
    """The samples of one device or host of a run, and the run's measured time."""

    rows: pd.DataFrame
    measured: MeasuredTime

    def select(self, column: str) -> Series:
        known = self.rows[column].notna().to_numpy()
        times, values = (self.rows[name].to_numpy()[known] for name in ("time_s", column))
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
        known = DeviceSamples(self.rows[self.rows["sm_clock_mhz"].notna()], self.measured).select("throttle_reasons")
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


def tabulate(plan: dict, results: Path = Path()) -> pd.DataFrame:
    """One row per completed run. results: the folder that holds `results/`."""

    @functools.cache
    def read_data(data_dir: str) -> dict | None:
        folder = results / data_dir
        return read_description(folder) if (folder / DESCRIPTION).exists() else None

    rows = []
    for outcome in read_outcomes(plan, results):
        if not (outcome.has_run and outcome.status == "completed" and outcome.record):
            continue
        record, measured = outcome.record, MeasuredTime.read(outcome.record, outcome.read_events())
        row = outcome.identity | {"telemetry_problem": find_problem(record)}
        if measured.seconds:
            row |= describe_samples(read_telemetry(outcome.folder), measured, record)
            row |= describe_arithmetic(record, measured, read_data)
        rows.append(row)
    return pd.DataFrame(rows, columns=list(COLUMNS))


def describe_samples(samples: pd.DataFrame, measured: MeasuredTime, record: dict) -> dict[str, Any]:
    """Return what the samples of a run tell. record: its run.json."""
    on_cpu = record["spec"]["device_kind"] == "cpu"
    of_devices = samples[(is_cpu if on_cpu else is_gpu)(samples["device"])]
    devices = split_devices(of_devices, measured)
    hosts = split_devices(samples[samples["device"] == HOST], measured)
    means = [device.compute_mean("utilisation_frac") for device in devices]
    row: dict[str, Any] = {
        "utilisation_frac": _mean(means),
        "utilisation_frac_lowest": np.min(means) if means else None,
        "utilisation_frac_highest": np.max(means) if means else None,
        "memory_gib_highest": of_devices["memory_gib"].max(),
        **{name: _mean(host.compute_mean(column) for host in hosts) for name, column in HOST_MEANS.items()},
    }
    if on_cpu:
        return row | describe_energy(hosts, record["spec"]["num_nodes"], "processors", measured)
    if not any(name.startswith("MIG-") for name in samples["device"].unique()):
        row |= describe_energy(devices, record["spec"]["num_gpus"], "counter", measured)
    return row | describe_clocks(devices, record)


def split_devices(samples: pd.DataFrame, measured: MeasuredTime) -> list[DeviceSamples]:
    groups = samples.groupby(["node", "device"], sort=False)
    return [DeviceSamples(rows, measured) for _, rows in groups]


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
        first = gpus[most].rows.iloc[0]
        row |= {"throttled_frac_highest": shares[most], "most_throttled": f"{first['node']}:{first['device']}"}
    return row


def describe_arithmetic(
    record: dict, measured: MeasuredTime, read_data: Callable[[str], dict | None]
) -> dict[str, Any]:
    """Return the multiply-adds of a run's network and the MFU, if they are known.

    read_data: returns the description of the data in a folder; None if it is gone.
    """
    spec = record["spec"]
    description = read_data(spec["data_dir"]) if "data_dir" in spec else None
    if description is None:
        return {}
    multiply_adds = count_multiply_adds(spec, description["image_shape"], description["num_classes"])
    peak = find_peak(record.get("device_model"), spec["precision"])
    if multiply_adds is None or peak is None:
        return {"multiply_adds": multiply_adds}
    flops = measured.num_images / measured.seconds * compute_flops_per_image(multiply_adds)
    return {"multiply_adds": multiply_adds, "mfu": flops / (peak * spec["num_gpus"])}
