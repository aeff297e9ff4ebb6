"""`make check-gpu` trains without the frameworks' waits, and says whose rates depend on them."""

import itertools
import json
from importlib import import_module
from types import SimpleNamespace

import pytest
import yaml
from snakemake.utils import update_config

from helpers.records import make_run
from helpers.specs import make_spec
from howmanygpus.files import sha256_of_file
from howmanygpus.site.machine import Device, Machine
from howmanygpus.study.plan import Plan
from howmanygpus_tools.check_gpu.findings import COMPLETES_STEPS, describe_wait, explain_missing
from howmanygpus_tools.check_gpu.steps import describe_changes, list_wait_runs
from howmanygpus_tools.check_gpu.waits import LIBRARY, RunWithoutWait
from project import ROOT

GPU = Machine("machine.yaml", {"cpu": Device(8, 1), "cuda": Device(1, 8, "cuda", 1, "9.0")})
FOUND = ["pytorch_ddp", "pytorch_dp", "jax_sharding"]
WHY = "the machine was shut down"


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
    command = import_module("howmanygpus_tools.check_gpu.__main__")
    monkeypatch.setattr(command, "read_smallest_memory_gib", lambda: None)
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(total=120 * 2**30))
    runs = command.plan_waits(plan_check("cuda"), "cuda")
    assert {(run.shows_it, run.spec["per_device_batch_size"]) for run in runs} == {(True, 8192)}


def test_on_a_cpu_only_asynchronous_frameworks_can_show_that_their_wait_is_missing():
    runs = list_wait_runs(plan_check("cpu"), None)
    assert {run.framework: run.shows_it for run in runs} == dict.fromkeys(FOUND, False) | {"jax_sharding": True}
    row = describe_wait(runs[0], WHY)
    assert (row["status"], row["reason"], row["problem"]) == ("", COMPLETES_STEPS, "")


CODE = {"howmanygpus/files.py": sha256_of_file(LIBRARY / "howmanygpus" / "files.py")}


def make_wait(folder, status=None, verdict="passed", **changes) -> RunWithoutWait:
    """Return a run without wait and store its record, if it has one."""
    spec = make_spec(framework="jax_sharding", study="check_gpu_waits")
    (folder / "verdict.json").write_text(json.dumps({"status": verdict, "reason": "why not" * (verdict != "passed")}))
    if status:
        (folder / "run.json").write_text(json.dumps(make_run(spec, status, **{"code": CODE, **changes})))
    return RunWithoutWait(folder, spec.to_dict(), "", str(folder / "verdict.json"), {}, shows_it=True)


def store_attempt(run: RunWithoutWait, name: str, status: str) -> None:
    folder = run.folder / "attempts" / name
    folder.mkdir(parents=True)
    (folder / "attempt.json").write_text(json.dumps({"status": status, "reason": f"why {status}"}))


def store_windows(folder, seconds) -> None:
    """Store the windows of a run, of which the first is not measured."""
    phases = ["compile", *["train"] * (len(seconds) - 1)]
    windows = [
        {"event": "window", "phase": phase, "elapsed_s": elapsed_s}
        for phase, elapsed_s in zip(phases, seconds, strict=True)
    ]
    (folder / "events.jsonl").write_text("".join(json.dumps(window) + "\n" for window in windows))


@pytest.mark.parametrize(("without_s", "is_problem"), [(0.1, False), (0.092, False), (0.085, True), (0.115, False)])
def test_windows_without_waits_are_not_shorter_than_windows_with_waits(tmp_path, without_s, is_problem):
    """The odd windows end without it."""
    store_windows(tmp_path, [9.0, *[0.1, without_s] * 9, 5.0, 7.0])
    row = describe_wait(make_wait(tmp_path, "completed"), WHY)
    assert (row["status"], row["with_wait_s"], row["without_s"]) == ("completed", 0.1, without_s)
    assert bool(row["problem"]) == is_problem
    for words in (f"{1000 * without_s:.3g} ms", "100 ms", "wait_until_idle"):
        assert (words in row["problem"]) == is_problem


def test_windows_that_other_work_makes_longer_and_shorter_are_no_problem(tmp_path):
    """The medians differ by more than the limit, but not the windows of each pair."""
    pairs = [(0.1, 0.08), (0.1, 0.08), (0.15, 0.12), (0.07, 0.075), (0.1, 0.11), (0.1, 0.08), (0.12, 0.08), (0.1, 0.3)]
    store_windows(tmp_path, [9.0, *itertools.chain(*pairs)])
    row = describe_wait(make_wait(tmp_path, "completed"), WHY)
    assert row["without_s"] < 0.85 * row["with_wait_s"] and row["problem"] == ""


@pytest.mark.parametrize(
    ("status", "problem"),
    [
        ("clock_mismatch", "clock_mismatch: 7 GiB"),
        ("out_of_memory", "out_of_memory: 7 GiB"),
        ("unsupported", ""),
        (None, explain_missing(WHY)),
    ],
)
def test_any_other_end_without_wait_is_a_problem(tmp_path, status, problem):
    assert describe_wait(make_wait(tmp_path, status, reason="7 GiB"), WHY)["problem"] == problem


def test_a_run_without_wait_that_crashed_says_why_and_one_that_was_stopped_is_missing(tmp_path):
    run = make_wait(tmp_path)
    store_attempt(run, "20260101T000000-1", "crashed")
    assert describe_wait(run, WHY)["problem"] == "crashed: why crashed"
    store_attempt(run, "20260101T000001-1", "interrupted")
    assert describe_wait(run, WHY)["problem"] == explain_missing(WHY)


def test_a_framework_that_the_gate_found_unsupported_is_not_trained_without_wait(tmp_path):
    run = make_wait(tmp_path, verdict="unsupported")
    assert run.explain_refusal() == "why not"
    row = describe_wait(run, WHY)
    assert (row["status"], row["reason"], row["problem"]) == ("unsupported", "why not", "")


def test_an_outcome_of_other_code_or_of_another_request_is_not_kept(tmp_path):
    assert make_wait(tmp_path, "completed").read_outcome()
    assert not make_wait(tmp_path, "completed", code={"howmanygpus/files.py": "0" * 64}).read_outcome()
    assert not make_wait(tmp_path, "completed", code={"howmanygpus/gone.py": "0" * 64}).read_outcome()
    other = make_spec(framework="jax_sharding", study="check_gpu_waits", global_batch_size=16)
    assert not make_wait(tmp_path, "completed", spec=other.to_dict()).read_outcome()
