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

`mfu` is the share of the devices' published peak that the network's arithmetic took: images/s times multiply-adds of
the network, times 3 for forward and backward pass, times 2 operations, over the peak of all devices.
`telemetry_problem` says why samples are incomplete. Values that were not sampled or are not known are empty.
"""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from howmanygpus.measure.input.description import DESCRIPTION, read_description
from howmanygpus.report.columns import IDENTITY
from howmanygpus.report.outcomes import read_outcomes
from howmanygpus.report.tables.helpers.measured_samples import MeasuredTime
from howmanygpus.report.tables.helpers.multiply_adds import compute_flops_per_image, count_multiply_adds
from howmanygpus.report.tables.helpers.peak_rates import find_peak
from howmanygpus.report.tables.helpers.summaries import summarize_samples
from howmanygpus.report.telemetry import find_problem

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
            row |= summarize_samples(outcome, results)["measured"]
            row |= describe_arithmetic(record, measured, read_data)
        rows.append(row)
    return pd.DataFrame(rows, columns=list(COLUMNS))


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
