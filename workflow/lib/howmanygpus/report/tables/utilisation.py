"""
What the devices and hosts of each run did in its measured windows: utilisation, power, energy, clocks and MFU.

`utilisation_frac` of a GPU is NVML's: the share of a sample period in which any kernel ran, however small a part of the
GPU it used. A value near 1 therefore does not mean that the GPU could do no more. On CPU devices it is the share of
time in which their cores were busy. It is the mean over the run's devices; `_lowest` and `_highest` are of the devices
with the lowest and the highest mean. `memory_gib_highest` is the largest memory in use of any device in the whole run;
of a CPU device, it is that of its processes.

`power_w` is the sum over the devices, and `joules_per_image` counts each device once. `energy_from` says how energy was
measured: `counter` of the GPUs, `module` (the counter of a GH200 or alike, which has its processor too), `power` (mean
power times time), or `processors` (RAPL of the whole nodes) on CPUs. All are empty for a part of a GPU (MIG), because
others may use the rest. `throttled_frac` is the share of time in which the clocks of a GPU were lower because of power,
temperature or a brake, as a mean over GPUs, and `throttle_reasons` names the reasons. `throttled_frac_highest` is that
of the most throttled one, which `most_throttled` names as its node's number and its UUID. Clocks and temperatures are
means over GPUs, at begin and end of the measured windows. Values of the host, its disks and its network are means over
nodes; the kernel does not count RDMA as traffic of the network.

`sm_active_frac`, `tensor_active_frac` and `dram_bandwidth_frac` are means over the devices of NVML's GPM metrics, which
Hopper and later GPUs have: SMs that were busy, time of SMs with tensor operations, and memory bandwidth over its
theoretical maximum. `activity_missing` says why a driver did not give them.

`mfu` is the share of the devices' published peak that the training took: images/s times `flops_per_image`, over the
peak of all devices. `flops_from` says where the operations are from: `network` is its multiply-adds times 3 for forward
and backward pass, times 2 operations; `program` is what a user's program reported; `parameters` is 6 times the
parameters that a program of tokens reported, without the products of attention.
`telemetry_problem` says why samples are incomplete. Values that were not sampled or are not known are empty.
"""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from howmanygpus.measure.input.description import DESCRIPTION, read_description
from howmanygpus.report.columns import IDENTITY
from howmanygpus.report.outcomes import read_outcomes, read_unit
from howmanygpus.report.tables.helpers.measured_samples import MeasuredTime
from howmanygpus.report.tables.helpers.multiply_adds import (
    FLOPS,
    TRAINING_FACTOR,
    compute_flops_per_image,
    count_multiply_adds,
)
from howmanygpus.report.tables.helpers.peak_rates import find_peak
from howmanygpus.report.tables.helpers.summaries import summarize_samples
from howmanygpus.report.telemetry import ACTIVITY, explain_missing, find_problem

READS = ("results",)
TOKENS = "tokens"
FLOPS_PER_TOKEN = FLOPS * TRAINING_FACTOR
"""Operations of training with a token for each parameter (Kaplan et al. 2020, arXiv:2001.08361, section 2.1)."""
IS_MERGED = True
COLUMNS = (
    *IDENTITY,
    *("utilisation_frac", "utilisation_frac_lowest", "utilisation_frac_highest", "memory_gib_highest"),
    *("power_w", "joules_per_image", "images_per_joule", "energy_from"),
    *("sm_clock_mhz_begin", "sm_clock_mhz_end", "temperature_c_begin", "temperature_c_end"),
    *("throttled_frac", "throttled_frac_highest", "most_throttled", "throttle_reasons"),
    *("sm_active_frac", "tensor_active_frac", "dram_bandwidth_frac", "activity_missing"),
    *("multiply_adds", "flops_per_image", "flops_from", "mfu"),
    *("host_utilisation_frac", "disk_read_gib_per_s", "disk_write_gib_per_s"),
    *("network_rx_gib_per_s", "network_tx_gib_per_s", "telemetry_problem"),
)


def tabulate(plan: dict, results: Path = Path()) -> pd.DataFrame:
    """One row per completed run. results: the folder that holds `results/`."""

    @functools.cache
    def read_data(data_dir: str) -> dict | None:
        folder = results / data_dir
        return read_description(folder) if (folder / DESCRIPTION).exists() else None

    unit = read_unit(plan["config"])
    rows = []
    for outcome in read_outcomes(plan, results):
        if not (outcome.has_run and outcome.status == "completed" and outcome.record):
            continue
        record, measured = outcome.record, MeasuredTime.read(outcome.record, outcome.read_events())
        row = outcome.identity | {"telemetry_problem": find_problem(record)}
        row["activity_missing"] = explain_missing(record, ACTIVITY)
        if measured.seconds:
            row |= summarize_samples(outcome, results)["measured"]
            row |= describe_arithmetic(record, measured, read_data, unit)
        rows.append(row)
    return pd.DataFrame(rows, columns=list(COLUMNS))


def describe_arithmetic(
    record: dict, measured: MeasuredTime, read_data: Callable[[str], dict | None], unit: str
) -> dict[str, Any]:
    """Return the operations of training with an image, where they are from, and the MFU, if they are known.

    read_data: returns the description of the data in a folder; None if it is gone. unit: what a program counts.
    """
    spec = record["spec"]
    row = describe_reported(record.get("reported", {}), unit)
    description = read_data(spec["data_dir"]) if "data_dir" in spec else None
    if description is not None:
        count = count_multiply_adds(spec, description["image_shape"], description["num_classes"])
        known = {} if count is None else {"flops_per_image": compute_flops_per_image(count), "flops_from": "network"}
        row |= {"multiply_adds": count} | known
    peak = find_peak(record.get("device_model"), spec["precision"])
    if peak is not None and "flops_per_image" in row:
        row["mfu"] = measured.num_images / measured.seconds * row["flops_per_image"] / (peak * spec["num_gpus"])
    return row


def describe_reported(reported: dict, unit: str) -> dict[str, Any]:
    """Return the operations of one sample by what a program reported. unit: what it counts."""
    if "flops_per_sample" in reported:
        return {"flops_per_image": reported["flops_per_sample"], "flops_from": "program"}
    if "parameters" in reported and unit == TOKENS:
        return {"flops_per_image": FLOPS_PER_TOKEN * reported["parameters"], "flops_from": "parameters"}
    return {}
