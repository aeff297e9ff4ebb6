"""The reference kernel measures all devices of a node at the same time, once a day, and never stops a run."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from hanging import HANG_S
from helpers.messages import says
from helpers.nvml import FakeGpu, FakeNvml
from helpers.processes import kill_those_left
from helpers.records import make_run
from helpers.specs import make_spec
from howmanygpus.measure.around import reference, reference_kernel
from howmanygpus.measure.around.reference import KernelError, ReferencePlan, find_rates
from howmanygpus.measure.around.reference_kernel import DeviceUnderTest, find_chunk, measure_devices, time_repeats
from howmanygpus.measure.around.schema import check_record
from howmanygpus.measure.host.placement import Placement
from howmanygpus.measure.records import AttemptFolder
from howmanygpus.site.reference import plan_reference
from measure.launching import write_attempt
from project import ROOT


@pytest.fixture
def short(monkeypatch):
    for name, seconds in {"PRODUCT_S": 0.05, "COPY_S": 0.05, "CHUNK_S": 0.001}.items():
        monkeypatch.setattr(reference_kernel, name, seconds)


def test_the_program_measures_the_cores_that_runs_get(tmp_path):
    environment = os.environ | {"PYTHONPATH": str(ROOT / "workflow" / "lib")}
    command = [
        sys.executable,
        "-m",
        "howmanygpus.measure.around.reference_kernel",
        "--kind",
        "cpu",
        "--folder",
        str(tmp_path),
    ]
    subprocess.run([*command, "--cores-per-device", "1", "--num-devices", "2"], env=environment, check=True)
    record = json.loads((tmp_path / f"{os.uname().nodename}.json").read_text())
    assert [device["device"] for device in record["devices"]] == [
        f"cores {core}" for core in sorted(os.sched_getaffinity(0))[:2]
    ]
    for device in record["devices"]:
        assert device["product_tflop_per_s"] > 0 and device["copy_gib_per_s"] > 0 and 0 < device["cores_frac"] < 1.1
    check_record(AttemptFolder(tmp_path).run, make_run(make_spec(), reference_kernel={"nodes": [record]}))


def test_a_device_that_takes_longer_has_a_lower_rate(short, monkeypatch):
    """Devices that wait instead of computing take nearly as long on a busy machine as on an idle one."""

    def prepare(device):
        seconds = 0.05 if device.name == "slow" else 0.002
        return lambda: time.sleep(seconds), lambda: time.sleep(seconds), lambda: None

    monkeypatch.setattr(reference_kernel, "prepare_cores", prepare)
    # Of several chunks, one that is delayed is not the median.
    monkeypatch.setattr(reference_kernel, "PRODUCT_S", 0.5)
    monkeypatch.setattr(reference_kernel, "COPY_S", 0.5)
    found = {
        each["device"]: each for each in measure_devices("cpu", [DeviceUnderTest(n, (0,)) for n in ("fast", "slow")])
    }
    for rate in ("product_tflop_per_s", "copy_gib_per_s"):
        assert found["slow"][rate] < 0.7 * found["fast"][rate]
    assert found["fast"]["cores_frac"] < 0.5, "it did not compute"


@pytest.mark.parametrize("fault", ["raises", "dies"])
def test_a_device_that_fails_is_named_and_the_others_are_measured(short, monkeypatch, fault):
    def prepare(device):
        if device.name == "bad" and fault == "raises":
            raise MemoryError("the device is full")
        return (
            lambda: os._exit(3) if device.name == "bad" else time.sleep(0.001),
            lambda: time.sleep(0.001),
            lambda: None,
        )

    monkeypatch.setattr(reference_kernel, "prepare_cores", prepare)
    if fault == "dies":
        # It dies while it is measured, when the others no longer wait for it.
        monkeypatch.setattr(reference_kernel, "find_chunk", lambda operate, wait: 1)
    bad, good = measure_devices("cpu", [DeviceUnderTest("bad", (0,)), DeviceUnderTest("good", (0,))])
    assert says(bad["problem"], "the device is full" if fault == "raises" else "status 3")
    assert "problem" not in good and good["product_tflop_per_s"] > 0


def test_a_short_disturbance_does_not_change_the_rate(monkeypatch):
    """The mean of the chunks would be several times as long."""
    clock = SimpleNamespace(now=0.0)
    clock.perf_counter = lambda: clock.now
    monkeypatch.setattr(reference_kernel, "time", clock)
    lengths = iter([0.001] * 20 + [0.2])

    def operate():
        clock.now += next(lengths, 0.001)

    assert time_repeats(operate, lambda: None, 1, 0.3) == pytest.approx(0.001)
    assert next(lengths, None) is None, "the disturbance was among the repeats"
    assert find_chunk(operate, lambda: None) > 1, "short operations are timed together"


ON_STAND_INS = """
import json, os
import torch
from howmanygpus.measure.around import reference_kernel
from howmanygpus.measure.around.reference_kernel import DeviceUnderTest, measure_devices

real = torch.device
torch.device = lambda kind, number: real("cpu")
torch.cuda.synchronize = lambda: None
states = {"GPU-a": {"name": "A100", "temperature_c": 60, "throttle_reasons": "", "power_w": 9.0}}
states["GPU-b"] = {"name": "A100"}
reference_kernel.read_gpu = lambda uuid: (states[uuid], [])
reference_kernel.SIZE["cuda"], reference_kernel.COPIED_BYTES["cuda"] = 64, 2**16
print(json.dumps(measure_devices("cuda", [DeviceUnderTest("GPU-a"), DeviceUnderTest("GPU-b")])))
"""
"""The kernel of GPUs, for which PyTorch computes on a CPU and NVML is replaced."""


def test_gpus_are_measured_by_one_process_each_with_its_state_under_load(environment_python):
    environment = os.environ | {"PYTHONPATH": str(ROOT / "workflow" / "lib")}
    command = [environment_python("pytorch-cpu"), "-c", ON_STAND_INS]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    first, second = json.loads(done.stdout)
    assert [first["device"], second["device"], first["model"]] == ["GPU-a", "GPU-b", "A100"]
    assert first["product_tflop_per_s"] > 0 and first["copy_gib_per_s"] > 0 and "problem" not in second
    assert (first["temperature_c"], first["throttle_reasons"]) == (60, "") and "power_w" not in first
    assert "cores_frac" not in first
    node = {"hostname": "n", "kind": "cuda", "cores_per_device": 1, "program": "p", "devices": [first, second]}
    check_record(Path("run.json"), make_run(make_spec(), reference_kernel={"nodes": [node]}))


SPEC, PLACEMENT = make_spec(num_gpus=1), Placement()


@pytest.fixture
def measured(tmp_path, monkeypatch):
    """Return the list of measurements, each the devices that were there, and a function that does a run's start."""
    calls = []

    def measure(spec, placement, attempt, plan):
        number = (spec.device_kind, spec.cores_per_device, plan.num_devices)
        devices = [device.name for device in reference_kernel.list_devices(*number)]
        calls.append(devices)
        (attempt.path / reference.FOLDER).mkdir(exist_ok=True)
        entries = [
            {"device": name, "model": "m", "measured_at": f"{reference.now()[:10]}T00:00:0{len(calls)}+00:00"}
            for name in devices
        ]
        record = {"hostname": os.uname().nodename, "kind": spec.device_kind, "program": "p", "devices": entries}
        record |= {"cores_per_device": spec.cores_per_device}
        (attempt.path / reference.FOLDER / "node.json").write_text(json.dumps(record))

    monkeypatch.setattr(reference, "measure", measure)
    monkeypatch.setattr(reference_kernel, "list_cores", lambda: [0, 1, 2, 3])
    plan = ReferencePlan("python", str(tmp_path / "cache"), 2)

    def start(spec=SPEC, **changes):
        (folder := tmp_path / "attempts" / str(time.monotonic_ns())).mkdir(parents=True)
        return find_rates(spec, PLACEMENT, AttemptFolder(folder), dataclasses.replace(plan, **changes))

    return calls, start


def test_devices_are_measured_once_a_day(measured, monkeypatch):
    calls, start = measured
    first, second = start(), start()
    assert calls == [["cores 0", "cores 1"]], "all devices of the machine, and not only that of the run"
    assert first == second and first["nodes"][0]["hostname"] == os.uname().nodename
    monkeypatch.setattr(reference, "now", lambda: "2999-01-01T00:00:00+00:00")
    start()
    assert len(calls) == 2, "tomorrow again"


def test_devices_of_other_sizes_are_other_devices(measured):
    calls, start = measured
    start()
    (node,) = start(make_spec(cores_per_device=2))["nodes"]
    assert calls == [["cores 0", "cores 1"], ["cores 0 1", "cores 2 3"]]
    assert [device["device"] for device in node["devices"]] == calls[1]


def test_a_gpu_that_another_job_had_before_is_measured_and_added(measured, monkeypatch):
    calls, start = measured
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    spec = make_spec(device="cuda", device_kind="cuda")
    FakeNvml([FakeGpu("GPU-a")]).install(monkeypatch)
    start(spec)
    FakeNvml([FakeGpu("GPU-b")]).install(monkeypatch)
    (node,) = start(spec)["nodes"]
    start(spec)
    assert calls == [["GPU-a"], ["GPU-b"]]
    assert {device["device"] for device in node["devices"]} == {"GPU-a", "GPU-b"}


@pytest.mark.parametrize("bind_cores", [True, False])
@pytest.mark.parametrize(("kept", "is_due"), [(["n1", "n2"], False), (["n1"], True), (["n2"], True)])
def test_a_run_over_two_nodes_needs_the_rates_of_both(measured, bind_cores, kept, is_due):
    """Without bound cores all of a node's cores are one device."""
    placement, plan = Placement(scheduler="slurm", bind_cores=bind_cores), ReferencePlan("python", "", 2)
    spec = make_spec(num_gpus=4, num_nodes=2)
    names = ["cores 0", "cores 1"] if bind_cores else ["cores 0 1 2 3"]
    record = {"devices": [{"device": name} for name in names]}
    rates = {node: record if node in kept else None for node in ("n1", "n2")}
    assert reference.is_due(spec, placement, plan, rates) == is_due


def test_steps_with_a_part_of_a_job_are_measured_until_there_are_as_many_rates():
    """Nobody knows which devices a step gets, so that those of a shared job would be measured before each run."""
    placement, plan = Placement(scheduler="slurm"), ReferencePlan("python", "", 2)
    rates = {"n1": {"devices": [{"device": device.name} for device in reference.list_devices("cpu", 1, 1)]}}
    assert not reference.is_due(make_spec(num_gpus=1), placement, plan, rates)
    assert reference.is_due(make_spec(num_gpus=2), placement, plan, rates)
    assert reference.is_due(make_spec(num_gpus=1), Placement(), plan, rates), "a run outside of jobs has all devices"


@pytest.mark.parametrize("content", [b"", b'{"devices": [', b"\xff"])
def test_a_damaged_file_of_the_cache_is_measured_anew(measured, tmp_path, content):
    calls, start = measured
    start()
    (path,) = (tmp_path / "cache").rglob("*.json")
    path.write_bytes(content)
    assert start()["nodes"] and len(calls) == 2 and json.loads(path.read_text())["devices"]


def test_a_cache_of_somebody_else_stops_no_run(measured, monkeypatch):
    _, start = measured

    def refuse(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(reference, "read_kept", refuse)
    found = start()
    assert found["nodes"] == [] and says(found["problem"], "Permission denied")


def test_a_record_does_not_have_the_place_of_the_home_folder(measured, monkeypatch, tmp_path):
    _, start = measured
    monkeypatch.setenv("HOME", str(tmp_path))

    def fail(*arguments):
        raise KernelError(f"exit status 1: {tmp_path}/env/bin/python: No module named torch")

    monkeypatch.setattr(reference, "measure", fail)
    for _ in range(2):
        problem = start()["problem"]
        assert says(problem, "~/env/bin/python", "delete ~/cache/") and str(tmp_path) not in problem


def test_a_kernel_that_fails_stops_no_run_and_is_tried_once_a_day(measured, monkeypatch):
    calls, start = measured
    attempts = []

    def fail(*arguments):
        attempts.append(arguments)
        raise KernelError("exit status 1: no such GPU")

    working = reference.measure
    monkeypatch.setattr(reference, "measure", fail)
    first, second = start(), start()
    assert len(attempts) == 1 and first == second and first["nodes"] == []
    assert says(first["problem"], "no such GPU", "before tomorrow, delete ")
    monkeypatch.setattr(reference, "measure", working)
    Path(first["problem"].rpartition("delete ")[2]).unlink()
    assert start()["nodes"] and len(calls) == 1, "the remedy that the sentence names"


def test_a_cache_that_cannot_be_written_stops_no_run(measured, tmp_path):
    _, start = measured
    (tmp_path / "file").touch()
    found = start(cache=str(tmp_path / "file"))
    assert says(found["problem"], str(tmp_path / "file"))


@pytest.mark.parametrize(
    ("command", "words"), [("exit 5", "exit status 5"), ("echo last words >&2; exit 1", "last words")]
)
def test_the_reason_of_a_kernel_that_fails_is_its_last_line(tmp_path, command, words):
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{command}\n")
    python.chmod(0o755)
    (tmp_path / "attempt").mkdir()
    plan = ReferencePlan(str(python), str(tmp_path / "cache"), 1)
    found = find_rates(SPEC, PLACEMENT, AttemptFolder(tmp_path / "attempt"), plan)
    assert says(found["problem"], words)


def test_a_kernel_that_hangs_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(reference, "PATIENCE_S", 0.2)
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexec sleep 300\n")
    python.chmod(0o755)
    (tmp_path / "attempt").mkdir()
    plan = ReferencePlan(str(python), str(tmp_path / "cache"), 1)
    assert says(find_rates(SPEC, PLACEMENT, AttemptFolder(tmp_path / "attempt"), plan)["problem"], "not done after")


def test_a_kernel_ends_itself_if_nobody_ends_it(tmp_path):
    """That is a step of SLURM whose srun was killed."""
    hang = "import time; from howmanygpus.measure.around import reference_kernel as kernel; kernel.PATIENCE_S = 1; "
    hang += "kernel.measure_devices = lambda *devices: time.sleep(60); kernel.main()"
    options = ["--kind", "cpu", "--cores-per-device", "1", "--num-devices", "1", "--folder", str(tmp_path)]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "workflow" / "lib")}
    assert subprocess.run([sys.executable, "-c", hang, *options], env=environment).returncode == -signal.SIGALRM


def test_gpus_need_an_environment_that_is_there(tmp_path):
    """None is built only for the kernel."""
    record = tmp_path / "pytorch-cuda13.json"
    described = {"environment": str(record), "num_devices": 4}
    assert says(plan_reference(described)["why"], "PyTorch", "not built")
    record.write_text(json.dumps({"python": "/site/python", "existing": {"python": "/site/python", "modules": []}}))
    assert plan_reference(described)["python"] == "/site/python" and not plan_reference(described)["why"]
    cpu = plan_reference({"environment": None, "num_devices": 2})
    assert (cpu["python"], cpu["num_devices"], cpu["why"]) == (sys.executable, 2, "")
    assert plan_reference(None) is None


HANGING_KERNEL = """
import os, sys, time
from pathlib import Path
from howmanygpus.files import write_text_atomic
from howmanygpus.measure.host.processes import die_with_parent

die_with_parent()
attempt = Path(sys.argv[sys.argv.index("--folder") + 1]).parent
write_text_atomic(attempt / "pid", str(os.getpid()))
time.sleep(300)
"""
"""It dies with the launcher, as the kernel does: a launcher that is told to end while it starts it loses it."""


def test_an_interrupted_launcher_leaves_no_kernel_behind(tmp_path, monkeypatch):
    monkeypatch.setenv("HOWMANYGPUS_LOCK_FOLDER", str(tmp_path))
    (tmp_path / "run").mkdir()
    attempt = write_attempt(tmp_path / "run", "pytorch_ddp")
    python = tmp_path / "python"
    python.write_text(f"#!{sys.executable}\n{HANGING_KERNEL}")
    python.chmod(0o755)
    plan = {"python": str(python), "cache": str(tmp_path / "cache"), "num_devices": 1}
    options = ["--attempt", str(attempt), "--run-dir", str(tmp_path / "done"), "--deadline-s", "300"]
    command = [sys.executable, "-m", "howmanygpus.measure.launch.launch", *options, "--reference", json.dumps(plan)]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "workflow" / "lib")}
    launcher = subprocess.Popen(command, env=environment, cwd=ROOT)
    while not (attempt / "pid").exists() and launcher.poll() is None:
        time.sleep(0.05)
    kernel = psutil.Process(int((attempt / "pid").read_text()))
    launcher.send_signal(signal.SIGTERM)
    assert launcher.wait(timeout=HANG_S) == 128 + signal.SIGTERM
    assert json.loads((attempt / "attempt.json").read_text())["status"] == "interrupted"
    assert not kill_those_left([kernel], timeout_s=HANG_S)
