"""What is read of a node and its GPUs before a run, and what the report says of it. A stand-in replaces NVML."""

import os
import subprocess
import sys
from types import SimpleNamespace

import psutil
import pynvml
import pytest

from helpers.messages import says
from helpers.nvml import FakeGpu, FakeNvml
from howmanygpus.measure.around import health
from howmanygpus.measure.around.health import read_gpu, read_health, read_host
from howmanygpus.report.tables.helpers.device_health import judge_state

UUID = "GPU-one"
HEALTHY = {
    **{"nvmlDeviceGetTemperature": 35, "nvmlDeviceGetTemperatureThreshold": 90, "nvmlDeviceGetPerformanceState": 0},
    **{"nvmlDeviceGetClockInfo": {0: 345, 1: 345, 2: 2619}, "nvmlDeviceGetMaxClockInfo": {0: 1980, 1: 1980, 2: 2619}},
    **{"nvmlDeviceGetApplicationsClock": {1: 1980}, "nvmlDeviceGetDefaultApplicationsClock": {1: 1980}},
    "nvmlDeviceGetCurrentClocksThrottleReasons": pynvml.nvmlClocksThrottleReasonGpuIdle,
    # A driver before 535 does not have it.
    "nvmlDeviceGetCurrentClocksEventReasons": pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND),
    **{"nvmlDeviceGetPowerUsage": 70_000, "nvmlDeviceGetEnforcedPowerLimit": 700_000},
    "nvmlDeviceGetPowerManagementDefaultLimit": 700_000,
    **{"nvmlDeviceGetTotalEccErrors": 0, "nvmlDeviceGetRemappedRows": (0, 0, 0, 0)},
    **{"nvmlDeviceGetCurrPcieLinkWidth": 16, "nvmlDeviceGetMaxPcieLinkWidth": 16},
    "nvmlDeviceGetComputeRunningProcesses": [],
}
"""Answers of a healthy idle GPU, by clock for the functions that are asked for one (nvmlClockType_t)."""
FIELDS = {name for names, _ in health.list_questions(UUID) for name in names} | {"uuid"}


def install(monkeypatch, *gpus, **answers):
    """Replace NVML by one in which all GPUs give these answers, or raise them. Return the calls, in order."""
    nvml, calls = FakeNvml(list(gpus) or [FakeGpu(UUID)]), []
    nvml.install(monkeypatch)
    given = HEALTHY | answers

    def answer(name):
        def call(handle, *arguments):
            assert not handle.startswith("MIG-") or "Processes" in name, f"NVML has {name} of whole GPUs only"
            value = given[name]
            if isinstance(value, Exception):
                raise value
            return value[arguments[0]] if isinstance(value, dict) else value

        return call

    for name in given:
        monkeypatch.setattr(pynvml, name, answer(name))
    for name in [name for name in dir(pynvml) if name.startswith("nvml") and callable(getattr(pynvml, name))]:
        monkeypatch.setattr(pynvml, name, counted(calls, name, getattr(pynvml, name)))
    pynvml.nvmlInit()
    calls.clear()
    return calls


def counted(calls, name, function):
    def call(*arguments):
        calls.append(name)
        return function(*arguments)

    return call


def judge_gpus(*uuids):
    """Return the sentences on the GPUs of this host, of which nothing else is judged here."""
    state = read_health(uuids or [UUID], [0])
    return [str(finding) for finding in judge_state(state) if "GPU-" in finding.where]


def test_every_field_of_a_healthy_gpu_is_read_and_none_is_a_finding(monkeypatch):
    install(monkeypatch)
    facts, missing = read_gpu(UUID)
    assert (facts.keys(), missing) == (FIELDS, [])
    assert (facts["sm_clock_mhz"], facts["memory_clock_mhz"], facts["power_limit_w"]) == (345, 2619, 700.0)
    assert (facts["memory_total_gib"], facts["memory_free_gib"], facts["throttle_reasons"]) == (80.0, 79.0, "gpu_idle")
    assert judge_gpus() == []


THERMAL = pynvml.nvmlClocksThrottleReasonHwSlowdown | pynvml.nvmlClocksThrottleReasonHwThermalSlowdown
OTHER = SimpleNamespace(pid=2**30, usedGpuMemory=3 * 2**30)


@pytest.mark.parametrize(
    ("gpu", "answers", "words"),
    [
        ({}, {"nvmlDeviceGetTemperature": 86}, ("86 °C", "slows down at 90 °C", "cool")),
        ({}, {"nvmlDeviceGetCurrentClocksThrottleReasons": THERMAL}, ("too hot", "hw_thermal_slowdown", "cooling")),
        (
            {},
            {"nvmlDeviceGetCurrentClocksThrottleReasons": pynvml.nvmlClocksThrottleReasonHwPowerBrakeSlowdown},
            ("power supply", "hw_power_brake_slowdown"),
        ),
        ({}, {"nvmlDeviceGetApplicationsClock": {1: 1200}}, ("set to 1,200 MHz", "1,980 MHz", "nvidia-smi -rac")),
        ({}, {"nvmlDeviceGetClockInfo": {1: 345, 2: 1593}}, ("1,593 of 2,619 MHz", "P0", "nvidia-smi -rmc")),
        ({}, {"nvmlDeviceGetEnforcedPowerLimit": 350_000}, ("350 W", "700 W", "nvidia-smi -pl 700")),
        ({}, {"nvmlDeviceGetTotalEccErrors": 2}, ("2 uncorrected memory errors", "nvidia-smi -r")),
        ({}, {"nvmlDeviceGetRemappedRows": (0, 9, 1, 1)}, ("could not be replaced", "leave the GPU out")),
        ({}, {"nvmlDeviceGetCurrPcieLinkWidth": 8}, ("8 of 16 lanes", "reseat")),
        ({}, {"nvmlDeviceGetComputeRunningProcesses": [OTHER]}, ("1 other process", f"{2**30} with 3.0 GiB", "end")),
        ({"used_frac": 0.5}, {}, ("40.0 of 80.0 GiB", "free", "end")),
    ],
    ids=["hot", "throttled", "brake", "clock", "memory clock", "power", "errors", "row", "lanes", "process", "memory"],
)
def test_each_fault_of_a_gpu_is_one_finding_with_device_value_and_remedy(monkeypatch, gpu, answers, words):
    install(monkeypatch, FakeGpu(UUID, **gpu), **answers)
    (sentence,) = judge_gpus()
    assert says(sentence, f"{os.uname().nodename}, GPU-one (NVIDIA H200)", *words)


@pytest.mark.parametrize(
    "answers",
    [
        {"nvmlDeviceGetTemperature": 75},
        {"nvmlDeviceGetPerformanceState": 8, "nvmlDeviceGetClockInfo": {1: 210, 2: 405}},
        {"nvmlDeviceGetCurrentClocksThrottleReasons": pynvml.nvmlClocksThrottleReasonSwPowerCap},
        {"nvmlDeviceGetRemappedRows": (3, 1, 1, 0)},
        {"nvmlDeviceGetApplicationsClock": {1: 1312}, "nvmlDeviceGetDefaultApplicationsClock": {1: 1312}},
    ],
    ids=["warm from the last run", "idle", "power cap", "rows replaced", "default below the maximum"],
)
def test_usual_states_of_a_gpu_are_no_findings(monkeypatch, answers):
    install(monkeypatch, **answers)
    assert judge_gpus() == []


def test_a_reason_that_passes_while_clocks_change_is_no_finding(monkeypatch):
    install(monkeypatch)
    masks = [pynvml.nvmlClocksThrottleReasonHwSlowdown, pynvml.nvmlClocksThrottleReasonGpuIdle]
    monkeypatch.setattr(pynvml, "nvmlDeviceGetCurrentClocksThrottleReasons", lambda handle: masks.pop(0))
    assert judge_gpus() == [] and not masks


def test_a_new_driver_is_asked_by_the_new_name(monkeypatch):
    refused = pynvml.NVMLError(pynvml.NVML_ERROR_DEPRECATED)
    install(monkeypatch, nvmlDeviceGetCurrentClocksThrottleReasons=refused, nvmlDeviceGetCurrentClocksEventReasons=64)
    assert read_gpu(UUID)[0]["throttle_reasons"] == "hw_thermal_slowdown"


def test_the_program_that_shares_a_gpu_is_no_other_process(monkeypatch):
    install(monkeypatch, nvmlDeviceGetComputeRunningProcesses=[OTHER])
    monkeypatch.setattr(psutil, "Process", lambda pid=None: SimpleNamespace(name=lambda: "nvidia-cuda-mps-server"))
    assert read_gpu(UUID)[0]["processes"][0]["name"] == "nvidia-cuda-mps-server"
    monkeypatch.setattr(health, "read_cpu_s", lambda processes: 0.0)
    assert judge_gpus() == []


@pytest.mark.parametrize("code", [pynvml.NVML_ERROR_NO_PERMISSION, pynvml.NVML_ERROR_NOT_SUPPORTED])
def test_what_cannot_be_read_is_left_out_and_named(monkeypatch, code):
    refused = {name: pynvml.NVMLError(code) for name in HEALTHY if "Ecc" in name or "Processes" in name}
    install(monkeypatch, **refused)
    state = read_health([UUID], [0])
    assert state["missing"][UUID] == ["processes", "uncorrected_errors"]
    assert state["gpus"][0].keys() == FIELDS - {"processes", "uncorrected_errors"}
    assert [finding for finding in judge_state(state) if UUID in finding.where] == []


def test_a_driver_older_than_the_package_is_no_error(monkeypatch):
    install(monkeypatch, nvmlDeviceGetComputeRunningProcesses=pynvml.NVMLLibraryMismatchError("older"))
    assert read_gpu(UUID)[1] == ["processes"]


def test_a_gpu_with_the_hosts_memory_has_none_of_its_own(monkeypatch):
    install(monkeypatch, FakeGpu(UUID, memory_gib=0.0))
    assert read_gpu(UUID)[1] == ["memory_total_gib", "memory_free_gib"]
    assert judge_gpus() == []


def test_a_part_of_a_gpu_has_the_heat_and_the_clocks_of_its_gpu(monkeypatch):
    install(monkeypatch, FakeGpu(UUID, parts=("MIG-a",)), nvmlDeviceGetTemperature=88)
    facts, missing = read_gpu("MIG-a")
    assert (facts["temperature_c"], facts["name"], missing) == (88, "NVIDIA H200 MIG 1g.18gb", [])


@pytest.mark.parametrize(("busy", "expected"), [(0.0, 1), (0.05, 1), (0.5, 2)], ids=["idle", "a daemon", "busy"])
def test_a_busy_host_is_observed_for_longer_and_never_for_a_second(monkeypatch, busy, expected):
    waits, clock = [], [0.0]

    def sleep(seconds):
        waits.append(seconds)
        clock[0] += seconds

    monkeypatch.setattr(health, "time", SimpleNamespace(sleep=sleep, monotonic=lambda: clock[0]))
    monkeypatch.setattr(health, "read_busy_s", lambda cores: 100.0 + busy * clock[0] * len(cores))
    monkeypatch.setattr(health, "read_cpu_s", lambda processes: 7.0)
    host = read_health([], [0, 1])["host"]
    assert len(waits) == expected and sum(waits) <= 0.5
    assert host["other_cpu_frac"] == pytest.approx(busy) and host["observed_s"] == pytest.approx(sum(waits))


def test_the_work_of_the_run_itself_is_not_that_of_others(monkeypatch):
    spent = iter((1.0, 1.4))
    busy = iter((10.0, 10.4))
    monkeypatch.setattr(health, "read_busy_s", lambda cores: next(busy))
    monkeypatch.setattr(health, "read_cpu_s", lambda processes: next(spent))
    assert read_health([], [0])["host"]["other_cpu_frac"] == pytest.approx(0.0, abs=1e-3)


def test_reading_asks_a_fixed_number_of_questions_and_sets_nothing(monkeypatch):
    """The time of a reading is that of these calls and of the wait."""
    few, many = {}, {}
    monkeypatch.setattr(health, "WINDOWS_S", (0.0,))
    for counts, number in ((few, 1), (many, 8)):
        uuids = [f"GPU-{i}" for i in range(number)]
        calls = install(monkeypatch, *map(FakeGpu, uuids))
        read_health(uuids, [0])
        assert not [name for name in calls if "Set" in name or "Reset" in name or "Clear" in name]
        counts["calls"] = len(calls)
    assert many["calls"] == 8 * few["calls"] and few["calls"] < 60


def test_few_cores_are_asked_for_their_clocks(tmp_path, monkeypatch):
    """Some kernels take 10 ms for each."""
    monkeypatch.setattr(health, "CPUFREQ", tmp_path)
    for core in range(64):
        (folder := tmp_path / f"cpu{core}" / "cpufreq").mkdir(parents=True)
        # A clock that only the last core has would be the lowest.
        values = {"scaling_cur_freq": 3_000_000 - core, "scaling_max_freq": 2_000_000, "cpuinfo_max_freq": 3_500_000}
        values |= {"scaling_governor": "powersave", "scaling_driver": "acpi-cpufreq"}
        for name, value in values.items():
            (folder / name).write_text(f"{value}\n")
    host, missing = read_host(range(64))
    assert (host["cpu_clock_mhz"], host["cpu_governor"], missing) == (3_000 - 0.007, "powersave", [])
    sentences = [str(finding) for finding in judge_state({"host": host | {"other_cpu_frac": 0.0}, "gpus": []})]
    assert any(says(sentence, "2,000 of 3,500 MHz", "scaling_max_freq") for sentence in sentences)
    assert any(says(sentence, "powersave", "acpi-cpufreq", "administrator") for sentence in sentences)


def test_a_host_without_clocks_names_them(tmp_path, monkeypatch):
    monkeypatch.setattr(health, "CPUFREQ", tmp_path)
    state = read_health([], [0])
    assert {"cpu_clock_mhz", "cpu_governor"} <= set(state["missing"]["host"])
    assert not state["host"].keys() & {"cpu_clock_mhz", "cpu_governor"}


HOST = {"hostname": "n1", "load_1min": 0.0, "num_cores": 4, "other_cpu_frac": 0.0}
HOST |= {"memory_total_gib": 64.0, "memory_available_gib": 60.0, "swap_used_gib": 2.0}
HOST |= {"memory_limit_gib": 32.0, "memory_free_in_limit_gib": 30.0}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"other_cpu_frac": 0.45}, ("n1", "45 %", "cores", "repeat")),
        ({"memory_available_gib": 3.0}, ("n1", "3.0 of 64.0 GiB of the memory are free", "swap", "end other programs")),
        ({"memory_free_in_limit_gib": 1.5}, ("n1", "1.5 of 32.0 GiB", "may use", "memory_per_device_mb")),
    ],
    ids=["busy", "little memory", "little memory in the group"],
)
def test_each_fault_of_a_host_is_one_finding(changes, words):
    assert judge_state({"host": HOST, "gpus": []}) == [], "swap in use alone is harmless"
    (finding,) = judge_state({"host": HOST | changes, "gpus": []})
    assert says(str(finding), *words)


def test_the_load_of_the_last_run_is_no_finding():
    """The load average still has the processes of the run before."""
    assert judge_state({"host": HOST | {"load_1min": 4.0}, "gpus": []}) == []


def test_the_work_of_others_on_the_cores_is_seen():
    core = min(os.sched_getaffinity(0))
    busy = subprocess.Popen(
        [sys.executable, "-c", "print(flush=True)\nwhile True: pass"],
        stdout=subprocess.PIPE,
        preexec_fn=lambda: os.sched_setaffinity(0, {core}),
    )
    try:
        busy.stdout.readline()
        state = read_health([], [core])
        (finding,) = [each for each in judge_state(state) if each.code == "busy_cores"]
        assert state["host"]["other_cpu_frac"] > 0.2 and finding.where == os.uname().nodename
    finally:
        busy.kill()
        busy.wait()
