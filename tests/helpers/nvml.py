"""A stand-in for NVIDIA's management library on machines without a GPU."""

from ctypes import c_void_p, cast, create_string_buffer
from dataclasses import dataclass, field
from types import SimpleNamespace

import pynvml

PCIE_RX, PCIE_TX = pynvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES, pynvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES
NVLINK_RX, NVLINK_TX = pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX

HOPPER = {
    **{pynvml.NVML_GPM_METRIC_SM_UTIL: 81.5, pynvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL: 32.0},
    **{pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL: 44.25},
}
"""Percentages of GPM metrics."""


@dataclass
class FakeGpu:
    """One GPU. cores: near it; parts: UUIDs of its MIG devices; peers: UUIDs that it reaches by NVLink.

    denied: by a cgroup, as SLURM does with the GPUs of other jobs. memory_gib: None if it shares the host's memory.
    used_frac: fraction of the memory that programs use; None for 1 GiB. A part uses 0.5 GiB. refusals: error of each
    function of pynvml, or field, that is refused. fields: values of fields. narrow: those with 32 bits. throttled: bits
    of reasons.
    """

    uuid: str
    cores: tuple[int, ...] = ()
    parts: tuple[str, ...] = ()
    memory_gib: float | None = 80.0
    peers: tuple[str, ...] = field(default=())
    denied: bool = False
    used_frac: float | None = None
    refusals: dict[str | int, int] = field(default_factory=dict)
    fields: dict[int, int] = field(
        default_factory=lambda: (
            {pynvml.NVML_FI_DEV_POWER_INSTANT: 300_000} | dict.fromkeys((PCIE_RX, PCIE_TX, NVLINK_RX, NVLINK_TX), 0)
        )
    )
    narrow: tuple[int, ...] = ()
    throttled: int = 0
    activity: dict[int, float] | None = field(default_factory=lambda: dict(HOPPER))
    """Percentages that GPM metrics have; None if the GPU does not support them."""
    lacking: dict[int, int] = field(default_factory=dict)
    """Error of each GPM metric that is not given."""
    num_gpm_samples: int = 0


class FakeNvml:
    """Functions of pynvml, which fail until nvmlInit was called, as NVML does."""

    def __init__(self, gpus: list[FakeGpu]):
        self._gpus, self._ready = gpus, False
        self._buffers: list = []
        self._sampled: dict[int, tuple[FakeGpu, int]] = {}

    def install(self, monkeypatch) -> None:
        for name in (name for name in vars(FakeNvml) if name.startswith("nvml")):
            monkeypatch.setattr(pynvml, name, getattr(self, name))

    def _check(self) -> None:
        if not self._ready:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_UNINITIALIZED)

    def _ask(self, name: str, handle: str) -> FakeGpu:
        """Return a whole GPU that a function is called for, and that does not refuse to answer."""
        gpu = self._board(handle)
        if handle != gpu.uuid:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        self._refuse(gpu, name)
        return gpu

    def _refuse(self, gpu: FakeGpu, what: str | int) -> None:
        if what in gpu.refusals:
            raise pynvml.NVMLError(gpu.refusals[what])

    def _board(self, uuid: str) -> FakeGpu:
        self._check()
        for gpu in self._gpus:
            if uuid in (gpu.uuid, *gpu.parts):
                return gpu
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)

    def nvmlInit(self):
        self._ready = True

    def nvmlSystemGetDriverVersion(self):
        return "580.1"

    def nvmlDeviceGetCount(self):
        self._check()
        return len(self._gpus)

    def nvmlDeviceGetHandleByIndex(self, index):
        self._check()
        if self._gpus[index].denied:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NO_PERMISSION)
        return self._gpus[index].uuid

    def nvmlDeviceGetHandleByUUID(self, uuid):
        self._board(uuid)
        return uuid

    def nvmlDeviceGetUUID(self, handle):
        return handle

    def nvmlDeviceGetName(self, handle):
        return "NVIDIA H200" + (" MIG 1g.18gb" if handle.startswith("MIG-") else "")

    def nvmlDeviceGetMigMode(self, handle):
        return [int(bool(self._board(handle).parts))] * 2

    def nvmlDeviceGetMaxMigDeviceCount(self, handle):
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle, index):
        parts = self._board(handle).parts
        if index >= len(parts):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return parts[index]

    def nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self, handle):
        return self._board(handle).uuid

    def nvmlDeviceGetCudaComputeCapability(self, handle):
        assert not handle.startswith("MIG-"), "NVML has this of whole GPUs only"
        return 9, 0

    def nvmlDeviceGetMemoryInfo(self, handle):
        memory_gib = self._board(handle).memory_gib
        self._refuse(self._board(handle), "nvmlDeviceGetMemoryInfo")
        if memory_gib is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        used_frac = self._board(handle).used_frac
        used_gib = 1 if used_frac is None else used_frac * memory_gib
        used_gib = 0.5 if handle.startswith("MIG-") else used_gib
        return SimpleNamespace(total=int(memory_gib * 2**30), used=int(used_gib * 2**30))

    def nvmlDeviceGetCpuAffinity(self, handle, num_words):
        words = [0] * num_words
        for core in self._board(handle).cores:
            words[core // 64] |= 1 << core % 64
        return words

    def nvmlDeviceGetPciInfo(self, handle):
        return SimpleNamespace(busId=f"00000000:{self._gpus.index(self._board(handle)):02X}:00.0")

    def nvmlDeviceGetTopologyCommonAncestor(self, first, second):
        self._check()
        return pynvml.NVML_TOPOLOGY_SYSTEM

    def nvmlDeviceGetP2PStatus(self, first, second, index):
        reached = second in self._board(first).peers
        return pynvml.NVML_P2P_STATUS_OK if reached else pynvml.NVML_P2P_STATUS_NOT_SUPPORTED

    def nvmlDeviceGetUtilizationRates(self, handle):
        if self._board(handle).parts:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        self._ask("nvmlDeviceGetUtilizationRates", handle)
        return SimpleNamespace(gpu=50)

    def nvmlDeviceGetPowerUsage(self, handle):
        self._ask("nvmlDeviceGetPowerUsage", handle)
        return 280_000

    def nvmlDeviceGetTotalEnergyConsumption(self, handle):
        self._ask("nvmlDeviceGetTotalEnergyConsumption", handle)
        return 1_000_000

    def nvmlDeviceGetTemperature(self, handle, sensor):
        self._ask("nvmlDeviceGetTemperature", handle)
        return 61

    def nvmlDeviceGetClockInfo(self, handle, kind):
        self._ask("nvmlDeviceGetClockInfo", handle)
        return {pynvml.NVML_CLOCK_SM: 1980, pynvml.NVML_CLOCK_MEM: 2619}[kind]

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle):
        return self._ask("nvmlDeviceGetCurrentClocksEventReasons", handle).throttled

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle):
        return self._ask("nvmlDeviceGetCurrentClocksThrottleReasons", handle).throttled

    def nvmlDeviceGetPcieThroughput(self, handle, counter):
        self._ask("nvmlDeviceGetPcieThroughput", handle)
        return {pynvml.NVML_PCIE_UTIL_RX_BYTES: 4_000_000, pynvml.NVML_PCIE_UTIL_TX_BYTES: 2_000_000}[counter]

    def nvmlGpmQueryDeviceSupport(self, handle):
        return SimpleNamespace(
            isSupportedDevice=int(self._ask("nvmlGpmQueryDeviceSupport", handle).activity is not None)
        )

    def nvmlGpmSampleAlloc(self):
        """Return a buffer as the pointer that NVML hands out, of which nobody knows the content."""
        self._buffers.append(create_string_buffer(1))
        return cast(self._buffers[-1], pynvml.c_nvmlGpmSample_t)

    def nvmlGpmSampleGet(self, handle, sample):
        gpu = self._ask("nvmlGpmSampleGet", handle)
        gpu.num_gpm_samples += 1
        self._sampled[cast(sample, c_void_p).value] = gpu, gpu.num_gpm_samples
        return sample

    def nvmlGpmMetricsGet(self, asked):
        """Answer for two samples of one GPU, the older one first; with others NVML answers nonsense."""
        (gpu, before), (other, after) = (
            self._sampled[cast(sample, c_void_p).value] for sample in (asked.sample1, asked.sample2)
        )
        assert asked.version == 1 and gpu is other and after == before + 1
        self._refuse(gpu, "nvmlGpmMetricsGet")
        for position in range(asked.numMetrics):
            metric = asked.metrics[position]
            metric.nvmlReturn = gpu.lacking.get(metric.metricId, pynvml.NVML_SUCCESS)
            metric.value = gpu.activity.get(metric.metricId, 0.0)
        return asked

    def nvmlDeviceGetFieldValues(self, handle, fields):
        gpu = self._ask("nvmlDeviceGetFieldValues", handle)
        return [self._answer(gpu, number) for number, _ in fields]

    def _answer(self, gpu, number):
        """Return a field as nvmlFieldValue_t."""
        answer = pynvml.c_nvmlFieldValue_t(fieldId=number, nvmlReturn=gpu.refusals.get(number, pynvml.NVML_SUCCESS))
        if number in gpu.narrow:
            answer.valueType, answer.value.uiVal = pynvml.NVML_VALUE_TYPE_UNSIGNED_INT, gpu.fields[number]
        else:
            answer.valueType, answer.value.ullVal = pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG, gpu.fields[number]
        return answer
