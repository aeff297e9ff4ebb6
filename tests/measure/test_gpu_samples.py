"""What NVML gives of a GPU arrives in the right columns; what it does not give is empty, and named with the reason."""

import json
import math
import os
import shutil
import subprocess
import sys
from types import SimpleNamespace

import pynvml
import pytest

from helpers.messages import says
from helpers.nvml import HOPPER, NVLINK_RX, NVLINK_TX, PCIE_RX, PCIE_TX, FakeGpu, FakeNvml
from howmanygpus.clone import LIBRARY
from howmanygpus.measure.host import gpu_samples
from howmanygpus.measure.host.counters import Counter
from howmanygpus.measure.host.gpu_samples import Gpu
from howmanygpus.measure.host.samples import COLUMNS
from project import ROOT

FAKES = ROOT / "tests" / "fakes"
GIB, KIB = 2**30, 2**10
NOT_SUPPORTED, NO_PERMISSION = pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_NO_PERMISSION
POWER = pynvml.NVML_FI_DEV_POWER_INSTANT
RATES = [column for column in COLUMNS if column.startswith(("pcie", "nvlink"))]


@pytest.fixture
def clock(monkeypatch):
    """A clock that a test sets, in seconds."""
    now = SimpleNamespace(s=0.0)
    monkeypatch.setattr(gpu_samples, "time", SimpleNamespace(monotonic=lambda: now.s))
    return now


def open_gpu(monkeypatch, uuid="GPU-one", **facts):
    """Return the simulated GPU and what samples it, or its part."""
    fake = FakeGpu("GPU-one", **facts)
    FakeNvml([fake]).install(monkeypatch)
    return fake, Gpu(uuid)


def sample(gpu, time_s=0.0, is_slow=True):
    """Return the values of a sample that are known."""
    ((device, values),) = gpu.sample(time_s, is_slow)
    assert list(gpu.expected) == [device]
    return {column: value for column, value in values.items() if value is not None}


def test_all_that_a_gpu_gives_is_sampled(monkeypatch, clock):
    fake, gpu = open_gpu(monkeypatch, throttled=0x4 | 0x40)
    sample(gpu)
    fake.fields |= {PCIE_RX: 3 * GIB, PCIE_TX: GIB, NVLINK_RX: 40 * GIB // KIB, NVLINK_TX: 20 * GIB // KIB}
    clock.s = 2.0
    assert sample(gpu) == {
        **{"utilisation_frac": 0.5, "memory_gib": 1.0, "power_w": 300.0, "energy_j": 1000.0, "temperature_c": 61},
        **{"sm_clock_mhz": 1980, "memory_clock_mhz": 2619, "throttle_reasons": "sw_power_cap hw_thermal_slowdown"},
        **{"pcie_rx_gib_per_s": 1.5, "pcie_tx_gib_per_s": 0.5, "nvlink_rx_gib_per_s": 20.0},
        **{"nvlink_tx_gib_per_s": 10.0},
        **{"sm_active_frac": 0.815, "tensor_active_frac": 0.32, "dram_bandwidth_frac": 0.4425},
    }
    assert set(gpu.expected["GPU-one"]) == set(COLUMNS[3:18]), "those of a GPU"


def test_what_takes_long_is_read_only_when_it_is_asked_for(monkeypatch):
    """NVML observes PCIe for 20 ms if a driver has no counters of its bytes."""
    _, gpu = open_gpu(monkeypatch)
    often = sample(gpu, is_slow=False)
    assert set(often) == {"utilisation_frac", "memory_gib", "power_w", "sm_clock_mhz", "throttle_reasons"}


@pytest.mark.parametrize(
    ("refusals", "column", "value"),
    [
        pytest.param({POWER: NOT_SUPPORTED}, "power_w", 280.0, id="power before driver 535"),
        pytest.param(
            {"nvmlDeviceGetCurrentClocksEventReasons": pynvml.NVML_ERROR_FUNCTION_NOT_FOUND},
            "throttle_reasons",
            "sw_power_cap",
            id="reasons before driver 535",
        ),
        pytest.param({PCIE_RX: NOT_SUPPORTED}, "pcie_rx_gib_per_s", 4e9 / GIB, id="PCIe without counters"),
    ],
)
def test_an_older_driver_is_asked_in_its_own_way(monkeypatch, refusals, column, value):
    _, gpu = open_gpu(monkeypatch, refusals=refusals, throttled=0x4)
    assert column not in sample(gpu) and column in gpu.missing["GPU-one"], "the first way fails once"
    assert sample(gpu)[column] == pytest.approx(value) and column not in gpu.missing["GPU-one"]


def test_a_byte_counter_of_32_bits_is_not_trusted(monkeypatch, clock):
    """At 6 GiB/s it begins again between two samples, and its rate looks like 2 GiB/s."""
    fake, gpu = open_gpu(monkeypatch, narrow=(PCIE_RX, PCIE_TX))
    sample(gpu)
    fake.fields |= {PCIE_RX: 2 * GIB, PCIE_TX: 2 * GIB}
    clock.s = 1.0
    found = sample(gpu)
    assert found["pcie_rx_gib_per_s"] == pytest.approx(4e9 / GIB)
    assert found["pcie_tx_gib_per_s"] == pytest.approx(2e9 / GIB)


def test_a_refused_value_is_empty_and_named_and_the_others_are_there(monkeypatch):
    refusals = {POWER: NO_PERMISSION, "nvmlDeviceGetPowerUsage": NO_PERMISSION, NVLINK_RX: NOT_SUPPORTED}
    _, gpu = open_gpu(monkeypatch, refusals=refusals)
    for _ in range(3):
        found = sample(gpu)
    assert not {"power_w", "nvlink_rx_gib_per_s"} & set(found)
    assert found["utilisation_frac"] == 0.5 and found["temperature_c"] == 61
    missing = {column: reason for column, reason in gpu.missing["GPU-one"].items() if column not in RATES}
    assert missing == {"power_w": "Insufficient Permissions"}
    assert gpu.missing["GPU-one"]["nvlink_rx_gib_per_s"] == "Not Supported"
    assert gpu.find_problems() == [], "nothing has changed during the run"


def test_a_value_that_comes_later_is_not_missing(monkeypatch):
    fake, gpu = open_gpu(monkeypatch, refusals={"nvmlDeviceGetTemperature": pynvml.NVML_ERROR_TIMEOUT})
    assert "temperature_c" not in sample(gpu) and gpu.missing["GPU-one"]["temperature_c"] == "Timeout"
    fake.refusals.clear()
    assert sample(gpu)["temperature_c"] == 61 and "temperature_c" not in gpu.missing["GPU-one"]


def test_a_part_has_its_own_memory_and_the_rest_of_its_board(monkeypatch):
    _, part = open_gpu(monkeypatch, "MIG-a", parts=("MIG-a", "MIG-b"), used_frac=0.75)
    found = sample(part)
    assert found["memory_gib"] == 0.5, "its board has 60 GiB in use"
    assert found["power_w"] == 300.0 and found["temperature_c"] == 61
    assert "power_w" in part.of_board["MIG-a"] and "memory_gib" not in part.of_board["MIG-a"]
    assert part.missing["MIG-a"]["utilisation_frac"] == "Not Supported"
    _, whole = open_gpu(monkeypatch)
    assert whole.of_board == {}


def test_a_gpu_that_is_lost_is_a_problem_and_the_others_are_sampled(monkeypatch):
    lost, other = FakeGpu("GPU-one"), FakeGpu("GPU-two")
    FakeNvml([lost, other]).install(monkeypatch)
    gpus = [Gpu("GPU-one"), Gpu("GPU-two")]
    for gpu in gpus:
        sample(gpu, 1.0)
    names = [name for name in vars(FakeNvml) if name.startswith("nvmlDeviceGet")]
    lost.refusals |= dict.fromkeys(names, pynvml.NVML_ERROR_GPU_IS_LOST)
    assert sample(gpus[0], 12.31) == {} and sample(gpus[1], 12.31)["power_w"] == 300.0
    sample(gpus[0], 14.0)
    (problem,) = gpus[0].find_problems()
    assert says(problem, "GPU-one", "utilisation, memory, power", "12.3 s", "GPU is lost")
    assert gpus[1].find_problems() == []
    lost.refusals.clear()
    assert sample(gpus[0], 15.0)["power_w"] == 300.0 and gpus[0].find_problems() == [], "it came back"


def test_a_counter_that_begins_again_goes_on(monkeypatch, clock):
    fake, gpu = open_gpu(monkeypatch)
    fake.fields[NVLINK_RX] = 2**64 - 2**20
    sample(gpu)
    fake.fields[NVLINK_RX] = 2**20
    clock.s = 1.0
    assert sample(gpu)["nvlink_rx_gib_per_s"] == pytest.approx(2.0), "twice 2^20 KiB in a second"


def test_the_growth_of_a_counter_that_was_reset_is_not_known():
    counter = Counter()
    assert [counter.update(value, time_s) for value, time_s in ((5, 0), (9, 2), (3, 4), (4, 5))] == [None, 2, None, 1]
    assert counter.total == 5


TENSOR, DRAM = pynvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL, pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL
ACTIVITY = ("sm_active_frac", "tensor_active_frac", "dram_bandwidth_frac")


def sample_activity(gpu, clock, *moments_s):
    """Return the activity at the last of several moments, with the number of samples of the counters."""
    found = {}
    for moment_s in moments_s:
        clock.s = moment_s
        found = sample(gpu)
    return tuple(found.get(column) for column in ACTIVITY)


def test_activity_is_that_between_two_samples_of_the_counters(monkeypatch, clock):
    fake, gpu = open_gpu(monkeypatch)
    assert sample_activity(gpu, clock, 1.0) == (None, None, None), "one sample tells nothing"
    assert sample_activity(gpu, clock, 2.0) == (0.815, 0.32, 0.4425)
    assert fake.num_gpm_samples == 2, "one for all columns"
    assert sample_activity(gpu, clock, 3.0, 4.0, 5.0) == (0.815, 0.32, 0.4425)


def test_counters_are_not_read_before_the_gpu_refreshes_them(monkeypatch, clock):
    fake, gpu = open_gpu(monkeypatch)
    assert sample_activity(gpu, clock, 1.0, 1.0625, 1.09375) == (None, None, None)
    assert sample_activity(gpu, clock, 1.125, 1.1875) == (0.815, 0.32, 0.4425)
    assert fake.num_gpm_samples == 2


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"activity": None}, "Not Supported"),
        ({"refusals": {"nvmlGpmQueryDeviceSupport": pynvml.NVML_ERROR_FUNCTION_NOT_FOUND}}, "Function"),
        ({"refusals": {"nvmlGpmSampleGet": NO_PERMISSION}}, "Insufficient Permissions"),
        ({"refusals": {"nvmlGpmMetricsGet": NOT_SUPPORTED}}, "Not Supported"),
        ({"parts": ("MIG-a",)}, "part of a GPU"),
    ],
    ids=["before Hopper", "old driver", "permission", "no metrics", "part"],
)
def test_activity_that_is_not_given_is_missing_with_its_reason_and_is_no_problem(monkeypatch, clock, facts, reason):
    fake, gpu = open_gpu(monkeypatch, "MIG-a" if "parts" in facts else "GPU-one", **facts)
    assert sample_activity(gpu, clock, 1.0, 2.0, 3.0) == (None, None, None)
    (missing,) = gpu.missing.values()
    assert all(says(missing[column], reason) for column in ACTIVITY)
    assert gpu.find_problems() == []
    asked = fake.num_gpm_samples
    sample_activity(gpu, clock, 4.0)
    assert fake.num_gpm_samples == asked, "it is not asked for again"


def test_a_single_metric_may_lack(monkeypatch, clock):
    _, gpu = open_gpu(monkeypatch, activity=HOPPER | {DRAM: math.nan}, lacking={TENSOR: NOT_SUPPORTED})
    assert sample_activity(gpu, clock, 1.0, 2.0, 3.0) == (0.815, None, None)
    assert list(gpu.missing["GPU-one"]) == ["tensor_active_frac"]


ASK = """
import json, time
import pynvml
from howmanygpus.measure.host.gpu_samples import Gpu
pynvml.nvmlInit()
gpu = Gpu("GPU-11111111-pretended")
for _ in range(3):
    ((_, values),) = gpu.sample(0.0, True)
    time.sleep(0.11)
print(json.dumps({name: value for name, value in values.items() if name.endswith("_frac")}))
"""


def test_the_library_is_asked_with_the_structures_of_its_header(tmp_path):
    """A library in C answers by offsets of nvml.h, as a driver does; nvidia-ml-py declares them again in Python."""
    if (compiler := shutil.which("cc")) is None:
        pytest.skip("needs a compiler of C")
    library = tmp_path / "libnvidia-ml.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, FAKES / "pretend_nvml.c"], check=True)
    environment = os.environ | {"LD_LIBRARY_PATH": str(tmp_path), "PYTHONPATH": str(LIBRARY)}
    said = subprocess.run([sys.executable, "-c", ASK], env=environment, capture_output=True, text=True, check=True)
    found = json.loads(said.stdout.splitlines()[-1])
    assert found == {"utilisation_frac": 0.5} | dict(zip(ACTIVITY, (0.815, 0.32, 0.4425), strict=True))
