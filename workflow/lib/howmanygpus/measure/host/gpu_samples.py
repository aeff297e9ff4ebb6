"""
Samples of NVIDIA GPUs and of parts of them (MIG), as NVML gives them.

Values that NVML answers at once are read at each sample, and others once a second. If a driver, a card or a permission
does not give a value, the next way to ask for it is tried. If none is left, the value is missing and is not asked for
again.
"""

import functools
import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import pynvml

from howmanygpus.measure.host.counters import Counter
from howmanygpus.measure.host.gpus import GIB, describe_throttle_reasons, get_board
from howmanygpus.measure.host.samples import name_columns

Read = Callable[[], Any]
KIB, KB = 2**10, 1000
ALL_LINKS = 2**32 - 1
"""Scope of a field of NVML with which it is the sum over all NVLinks (nvml.h)."""
OWN = ("utilisation_frac", "memory_gib")
"""Columns that NVML has of a part itself."""
NEVER_GIVEN = (
    *(pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_NO_PERMISSION, pynvml.NVML_ERROR_FUNCTION_NOT_FOUND),
    *(pynvml.NVML_ERROR_INVALID_ARGUMENT, pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH, pynvml.NVML_ERROR_DEPRECATED),
)
"""Errors by which NVML says that it will not give a value later either."""
MEMBERS = {
    pynvml.NVML_VALUE_TYPE_UNSIGNED_INT: ("uiVal", 2**32),
    pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG: ("ulVal", 2**64),
    pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG: ("ullVal", 2**64),
}
"""Member of the union nvmlValue_t and its number of values, by nvmlValueType_t."""


def read_field(board: Any, number: int, scope: int = 0) -> tuple[int, int]:
    """Return the value of a field of NVML (nvmlFieldValue_t) and the number of values of its type.

    Raises NVMLError if it is not given.
    """
    (answer,) = pynvml.nvmlDeviceGetFieldValues(board, [(number, scope)])
    if answer.nvmlReturn != pynvml.NVML_SUCCESS:
        raise pynvml.NVMLError(answer.nvmlReturn)
    member, size = MEMBERS[answer.valueType]
    return getattr(answer.value, member), size


def read_instant_power(board: Any) -> float:
    """Return the power in W. nvmlDeviceGetPowerUsage is a mean over one second on Ampere and later."""
    return read_field(board, pynvml.NVML_FI_DEV_POWER_INSTANT)[0] / 1000


class CounterRate:
    """Rate of a counter that is a field of NVML, in GiB/s. unit: bytes of one count."""

    def __init__(self, board: Any, number: int, unit: int, scope: int = 0):
        self._board, self._number, self._unit, self._scope = board, number, unit, scope
        self._counter: Counter | None = None

    def read(self) -> float | None:
        """Return the mean rate since the last call; None at the first one.

        Raises NVMLError if the counter is not given. One of 32 bits that counts bytes counts as not given, because it
        begins again several times a second.
        """
        value, size = read_field(self._board, self._number, self._scope)
        if size * self._unit <= 2**32:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        self._counter = self._counter or Counter(size)
        rate = self._counter.update(value, time.monotonic())
        return None if rate is None else rate * self._unit / GIB


def list_own_reads(own: Any) -> dict[str, list[Read]]:
    """Return how to ask for what NVML knows of a GPU and of a part alike, by column. own: NVML's handle of either."""
    return {
        "utilisation_frac": [lambda: pynvml.nvmlDeviceGetUtilizationRates(own).gpu / 100],
        "memory_gib": [lambda: pynvml.nvmlDeviceGetMemoryInfo(own).used / GIB],
    }


def list_fast_reads(board: Any) -> dict[str, list[Read]]:
    """Return how to ask for the values of a whole GPU that are read at each sample, by column."""
    return {
        "power_w": [lambda: read_instant_power(board), lambda: pynvml.nvmlDeviceGetPowerUsage(board) / 1000],
        "sm_clock_mhz": [lambda: pynvml.nvmlDeviceGetClockInfo(board, pynvml.NVML_CLOCK_SM)],
        "throttle_reasons": [
            lambda: describe_throttle_reasons(pynvml.nvmlDeviceGetCurrentClocksEventReasons(board)),
            # The same before driver 535.
            lambda: describe_throttle_reasons(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(board)),
        ],
    }


def list_slow_reads(board: Any) -> dict[str, list[Read]]:
    """Return how to ask for the values of a whole GPU that are read once a second, by column.

    Without byte counters, NVML observes PCIe for 20 ms at each call (nvmlDeviceGetPcieThroughput).
    """
    observed = {"rx": pynvml.NVML_PCIE_UTIL_RX_BYTES, "tx": pynvml.NVML_PCIE_UTIL_TX_BYTES}
    counted = {"rx": pynvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES, "tx": pynvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES}
    links = {"rx": pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, "tx": pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX}

    def observe(way: str) -> Read:
        return lambda: pynvml.nvmlDeviceGetPcieThroughput(board, observed[way]) * KB / GIB

    return {
        "energy_j": [lambda: pynvml.nvmlDeviceGetTotalEnergyConsumption(board) / 1000],
        "temperature_c": [lambda: pynvml.nvmlDeviceGetTemperature(board, pynvml.NVML_TEMPERATURE_GPU)],
        "memory_clock_mhz": [lambda: pynvml.nvmlDeviceGetClockInfo(board, pynvml.NVML_CLOCK_MEM)],
        **{f"pcie_{way}_gib_per_s": [CounterRate(board, counted[way], 1).read, observe(way)] for way in counted},
        **{f"nvlink_{way}_gib_per_s": [CounterRate(board, links[way], KIB, ALL_LINKS).read] for way in links},
    }


ACTIVITY = {
    "sm_active_frac": pynvml.NVML_GPM_METRIC_SM_UTIL,
    "tensor_active_frac": pynvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL,
    "dram_bandwidth_frac": pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL,
}
"""GPM metrics of NVML by column, all in per cent (nvml.h, nvmlGpmMetricId_t): SMs that were busy, time of SMs with any
tensor operation, and bandwidth of the memory over its theoretical maximum."""
REFRESH_S = 0.1
"""Shortest time between two GPM samples that are compared: the GPU refreshes its counters that often (nvml.h)."""
OF_PART = "not asked for of a part of a GPU (MIG)"


class Activity:
    """What the units of a whole GPU did, from the differences of counters (GPM), which Hopper and later GPUs have.

    Each pair of samples has the time since the sample before, so that no time is left out.
    """

    def __init__(self, board: Any):
        self._board = board
        self._before: Any = None
        self._spare: Any = None
        self._read_at = -math.inf
        self._error: pynvml.NVMLError | None = None
        self._found: dict[int, pynvml.c_nvmlGpmMetric_t] = {}

    def read(self, metric: int) -> float | None:
        """Return a metric as a fraction, as a mean since the samples before; None at the first call.

        Raises NVMLError if the GPU, its driver or a permission does not give it.
        """
        if (now := time.monotonic()) - self._read_at >= REFRESH_S:
            self._read_at, self._error = now, None
            try:
                self._update()
            except pynvml.NVMLError as error:
                self._error = error
        if self._error:
            raise self._error
        if not self._found:
            return None
        found = self._found[metric]
        if found.nvmlReturn != pynvml.NVML_SUCCESS:
            raise pynvml.NVMLError(found.nvmlReturn)
        return found.value / 100 if math.isfinite(found.value) else None

    def _update(self) -> None:
        if self._spare is None:
            if not pynvml.nvmlGpmQueryDeviceSupport(self._board).isSupportedDevice:
                raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
            self._spare = pynvml.nvmlGpmSampleAlloc()
        pynvml.nvmlGpmSampleGet(self._board, self._spare)
        before, self._before, self._spare = self._before, self._spare, None
        if before is None:
            return
        # The older sample is overwritten by the next one.
        self._spare = before
        asked = pynvml.c_nvmlGpmMetricsGet_t(version=pynvml.NVML_GPM_METRICS_GET_VERSION, numMetrics=len(ACTIVITY))
        asked.sample1, asked.sample2 = before, self._before
        for position, metric in enumerate(ACTIVITY.values()):
            asked.metrics[position].metricId = metric
        pynvml.nvmlGpmMetricsGet(asked)
        self._found = {asked.metrics[each].metricId: asked.metrics[each] for each in range(len(ACTIVITY))}


class Gpu:
    """A GPU or a part of one, given its UUID.

    expected: its columns. missing: why some of them were never given so far. of_board: columns of a part whose values
    are those of its whole GPU. All by device.

    utilisation_frac is the share of NVML's sample period, which is 1/6 s to 1 s, in which any kernel ran.
    """

    def __init__(self, uuid: str):
        pynvml.nvmlInit()
        self._uuid, board = uuid, get_board(uuid)
        slow = list_slow_reads(board)
        self._reads = list_own_reads(pynvml.nvmlDeviceGetHandleByUUID(uuid)) | list_fast_reads(board) | slow
        is_part, activity = uuid.startswith("MIG-"), Activity(board)
        of_board = [column for column in self._reads if column not in OWN]
        self.of_board = {uuid: of_board} if is_part else {}
        self._reads |= {
            column: [] if is_part else [functools.partial(activity.read, metric)] for column, metric in ACTIVITY.items()
        }
        self._slow = frozenset((*slow, *ACTIVITY))
        self.expected = {uuid: tuple(self._reads)}
        self._reasons: dict[str, str] = dict.fromkeys(ACTIVITY, OF_PART) if is_part else {}
        self.missing = {uuid: self._reasons}
        self._given: set[str] = set()
        self._failing: dict[str, tuple[float, str]] = {}

    def sample(self, time_s: float, is_slow: bool) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the device with the values by column that are given now.

        is_slow: whether to read those of once a second too.
        """
        values = {}
        for column, ways in self._reads.items():
            if ways and (is_slow or column not in self._slow):
                try:
                    values[column] = ways[0]()
                except pynvml.NVMLError as error:
                    self._note_failure(column, error, time_s)
                else:
                    # Of rates, the first sample has none, and the next one may show that they are not given.
                    if values[column] is not None:
                        self._note_success(column)
        yield self._uuid, values

    def _note_success(self, column: str) -> None:
        self._given.add(column)
        self._reasons.pop(column, None)
        self._failing.pop(column, None)

    def _note_failure(self, column: str, error: pynvml.NVMLError, time_s: float) -> None:
        if column in self._given:
            self._failing.setdefault(column, (time_s, str(error)))
            return
        self._reasons[column] = str(error)
        if error.value in NEVER_GIVEN:
            self._reads[column].pop(0)

    def find_problems(self) -> list[str]:
        """Return since when and why values are not given that were given before."""
        if not self._failing:
            return []
        time_s, error = min(self._failing.values())
        return [f"{self._uuid} gave no {name_columns(self._failing)} after {time_s:.1f} s: {error}"]
