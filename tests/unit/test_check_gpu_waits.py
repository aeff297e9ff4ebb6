"""`make check-gpu` trains without the frameworks' waits, and says of which it was not noticed."""

import json
from importlib.util import module_from_spec, spec_from_file_location
from types import SimpleNamespace

import pytest
import yaml
from snakemake.utils import update_config

from howmanygpus.files import sha256_of_file
from howmanygpus.plan.check_gpu import describe_changes, list_wait_runs
from howmanygpus.plan.config.machine import Device, Machine
from howmanygpus.plan.plan import Plan
from howmanygpus.report.check_gpu.findings import TIME_UP
from howmanygpus.report.check_gpu.waits import COMPLETES_STEPS, describe_wait
from howmanygpus.train.preflight.waits import LIBRARY, WaitRun
from project import ROOT
from records import make_run
from specs import make_spec

GPU = Machine("machine.yaml", {"cpu": Device(8, 1), "cuda": Device(1, 8, "cuda", 1, "9.0")})
FOUND = ["pytorch_ddp", "pytorch_dp", "jax_sharding"]


def plan_check(device: str) -> Plan:
    """Return the plan of what the command would run."""
    config = yaml.safe_load((ROOT / "config" / "check_gpu.yaml").read_text())
    update_config(config, describe_changes(FOUND, device, "results/check_gpu/machine.yaml"))
    return Plan(config, GPU)


def test_every_framework_found_is_trained_without_its_wait():
    """The runs are those of the stock tier in fp32, in long steps, on images that stay on the device."""
    runs = list_wait_runs(plan_check("cuda"), memory_gib=79.6)
    assert [run.framework for run in runs] == FOUND and all(run.shows_it for run in runs)
    for run in runs:
        keys = ("tier", "precision", "input", "device", "num_gpus", "per_device_batch_size", "global_batch_size")
        assert [run.spec[key] for key in keys] == ["stock", "fp32", "resident", "cuda", 1, 4096, 4096]
        assert run.spec["study"] not in plan_check("cuda").studies, "its records are those of no study"
        assert run.spec["window_steps"] == 1, "nothing but the wait separates two steps"
        assert str(run.folder).startswith("results/check_gpu/waits/")


@pytest.mark.parametrize(("memory_gib", "batch"), [(7.8, 512), (14.9, 1024), (39.5, 2048), (139.8, 8192)])
def test_the_batch_without_wait_fits_the_memory(memory_gib, batch):
    assert list_wait_runs(plan_check("cuda"), memory_gib)[0].spec["per_device_batch_size"] == batch


def test_a_gpu_that_shares_the_hosts_memory_is_not_taken_for_none(monkeypatch):
    """Without a GPU, the batches are small and most frameworks show nothing."""
    script = spec_from_file_location("check_gpu", ROOT / "workflow" / "scripts" / "check_gpu.py")
    command = module_from_spec(script)
    script.loader.exec_module(command)
    monkeypatch.setattr(command, "find_smallest_memory_gib", lambda: None)
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(total=120 * 2**30))
    runs = command.plan_waits(plan_check("cuda"), "cuda")
    assert {(run.shows_it, run.spec["per_device_batch_size"]) for run in runs} == {(True, 8192)}


def test_on_a_cpu_only_asynchronous_frameworks_can_show_that_their_wait_is_missing():
    runs = list_wait_runs(plan_check("cpu"), None)
    assert {run.framework: run.shows_it for run in runs} == dict.fromkeys(FOUND, False) | {"jax_sharding": True}
    row = describe_wait(runs[0])
    assert (row["status"], row["expected"], row["problem"]) == ("", COMPLETES_STEPS, "")


CODE = {"howmanygpus/files.py": sha256_of_file(LIBRARY / "howmanygpus" / "files.py")}


def make_wait(folder, status=None, verdict="passed", **changes) -> WaitRun:
    """Return a run without wait and store its record, if it has one."""
    spec = make_spec(framework="jax_sharding", study="check_gpu_waits")
    (folder / "verdict.json").write_text(json.dumps({"status": verdict, "reason": "why not" * (verdict != "passed")}))
    if status:
        (folder / "run.json").write_text(json.dumps(make_run(spec, status, **{"code": CODE, **changes})))
    return WaitRun(folder, spec.to_dict(), "", str(folder / "verdict.json"), {}, shows_it=True)


def store_attempt(run: WaitRun, name: str, status: str) -> None:
    folder = run.folder / "attempts" / name
    folder.mkdir(parents=True)
    (folder / "attempt.json").write_text(json.dumps({"status": status, "reason": f"why {status}"}))


def test_a_missing_wait_that_is_noticed_is_no_problem(tmp_path):
    row = describe_wait(make_wait(tmp_path, "clock_mismatch", reason="in no phase"))
    assert (row["status"], row["expected"], row["problem"]) == ("clock_mismatch", "clock_mismatch", "")
    assert row["phases"] == "window 7 s, late 0 s, barrier 0.1 s, loss 0.1 s, log 0.1 s, evaluation 3 s"


@pytest.mark.parametrize(
    ("status", "problem"),
    [
        ("completed", "completed, not clock_mismatch: without its wait the run was not noticed (window 7 s, late 0 s"),
        ("out_of_memory", "out_of_memory, not clock_mismatch: 7 GiB"),
        ("unsupported", ""),
        (None, TIME_UP),
    ],
)
def test_any_other_end_without_wait_is_a_problem(tmp_path, status, problem):
    found = describe_wait(make_wait(tmp_path, status, reason="7 GiB"))["problem"]
    assert found.startswith(problem) and bool(found) == bool(problem)


def test_a_run_without_wait_that_crashed_says_why_and_one_that_was_stopped_is_missing(tmp_path):
    run = make_wait(tmp_path)
    store_attempt(run, "20260101T000000-1", "crashed")
    assert describe_wait(run)["problem"] == "crashed, not clock_mismatch: why crashed"
    store_attempt(run, "20260101T000001-1", "interrupted")
    assert describe_wait(run)["problem"] == TIME_UP


def test_a_framework_that_the_gate_found_unsupported_is_not_trained_without_wait(tmp_path):
    run = make_wait(tmp_path, verdict="unsupported")
    assert run.explain_refusal() == "why not"
    row = describe_wait(run)
    assert (row["status"], row["reason"], row["problem"]) == ("unsupported", "why not", "")


def test_an_outcome_of_other_code_or_of_another_request_is_not_kept(tmp_path):
    assert make_wait(tmp_path, "clock_mismatch").find_outcome()
    assert not make_wait(tmp_path, "clock_mismatch", code={"howmanygpus/files.py": "0" * 64}).find_outcome()
    assert not make_wait(tmp_path, "clock_mismatch", code={"howmanygpus/gone.py": "0" * 64}).find_outcome()
    other = make_spec(framework="jax_sharding", study="check_gpu_waits", global_batch_size=16)
    assert not make_wait(tmp_path, "clock_mismatch", spec=other.to_dict()).find_outcome()
