"""Test that runs which other work disturbed are set aside, and no others, and none that a call has counted."""

import json
import subprocess
import sys

import pytest

from helpers.messages import says
from helpers.records import HOST, make_run
from helpers.specs import make_spec
from howmanygpus.site.jobs import invocations
from project import ROOT

SCRIPT = [sys.executable, str(ROOT / "workflow" / "scripts" / "retry_runs.py")]


def store(folder, name, **changes):
    run = folder / "results" / "runs" / name
    run.mkdir(parents=True)
    (run / "run.json").write_text(json.dumps(make_run(make_spec()) | {"disturbance": None} | changes))


def retry(folder, *options):
    return subprocess.run([*SCRIPT, *options], cwd=folder, capture_output=True, text=True)


@pytest.fixture
def results(tmp_path):
    """Return a folder with runs that were disturbed, alone, not looked at, and out of memory beside others."""
    busy = {"disturbance": {"other_cpu_frac": 0.5, "other_gpu_processes": None}}
    store(tmp_path, "one/a", **busy)
    store(tmp_path, "one/b", disturbance={"other_cpu_frac": 0.01, "other_gpu_processes": 0})
    store(tmp_path, "one/c")
    store(tmp_path, "one/d", status="out_of_memory", **busy)
    store(tmp_path, "two/a", **busy)
    return tmp_path


def list_left(results, study):
    return sorted(path.parent.name for path in (results / "results" / "runs" / study).rglob("run.json"))


def test_only_disturbed_runs_are_set_aside_and_repeated_runs_stay(results):
    assert retry(results, "--disturbed", "--study", "one").returncode == 0
    assert (list_left(results, "one"), list_left(results, "two")) == (["b", "c", "d"], ["a"])
    assert len(list((results / "results" / "attempts" / "one" / "a").rglob("run.json"))) == 1
    store(results, "one/a", disturbance={"other_cpu_frac": 0.0, "other_gpu_processes": 0})
    again = retry(results, "--disturbed", "--study", "one")
    assert says(again.stdout, "Nothing", "none of the 4 runs", "results/runs/one", "disturbed")
    assert list_left(results, "one") == ["a", "b", "c", "d"]


def test_where_nothing_was_found_is_said(results):
    words = "none of the 5 runs in results/runs is diverged, and no verdict in results/parity is failed."
    assert words in retry(results, "--status", "diverged", "--verdicts", "failed").stdout
    assert not (results / "results" / "attempts").exists()


def test_nothing_is_set_aside_beside_a_call_that_lives(results, monkeypatch):
    monkeypatch.chdir(results)
    monkeypatch.setattr(invocations.atexit, "register", lambda *_, **__: None)
    monkeypatch.setenv(invocations.VARIABLE, "none")
    invocations.announce("mine")
    refused = retry(results, "--disturbed")
    assert refused.returncode == 2 and "a call of Snakemake is at work in this folder: process" in refused.stderr
    assert len(list_left(results, "one")) == 4


def test_runs_on_devices_that_are_not_in_order_are_set_aside(results):
    """A device is compared with those of other runs."""
    state = {
        "host": {"hostname": "n1", "load_1min": 0, "num_cores": 8, "other_cpu_frac": 0.5},
        "gpus": [],
        "missing": {},
    }
    store(results, "three/busy", health=state)
    store(results, "three/idle", health=state | {"host": state["host"] | {"other_cpu_frac": 0.0}})
    for name, rate in (("a", 100.0), ("b", 99.0), ("c", 50.0)):
        rates = {"product_tflop_per_s": rate, "copy_gib_per_s": 9.0}
        device = {"device": f"GPU-{name}", "model": "m", "measured_at": "2026-11-27T08:00:00+00:00"} | rates
        node = {"hostname": name, "kind": "cuda", "cores_per_device": 1, "program": "p", "devices": [device]}
        host = HOST | {"hostname": name, "gpu_uuids": [f"GPU-{name}"]}
        store(results, f"three/{name}", host=host, reference_kernel={"nodes": [node]})
    assert retry(results, "--unhealthy", "--study", "three").returncode == 0
    assert list_left(results, "three") == ["a", "b", "idle"]
    again = retry(results, "--unhealthy", "--study", "three")
    assert says(again.stdout, "Nothing", "none of the 3 runs", "unhealthy")
