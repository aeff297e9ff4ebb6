"""
Rates are the same with a backend whose signals that steps are complete come too early.

This is tested with the frameworks whose steps go on after they have returned on a CPU too. The others complete each
step before it returns there, so that their waits have nothing to wait for. `make check-gpu` shows it for them on a GPU,
by the same modules.
"""

import json
import os
import statistics
import subprocess
import sys
import time

import pytest

from helpers.specs import make_spec
from howmanygpus.registry import FRAMEWORKS
from howmanygpus_tools.check_gpu.findings import describe_wait
from howmanygpus_tools.check_gpu.steps import ASYNCHRONOUS_ON_CPU
from howmanygpus_tools.check_gpu.waits import STUDY, VARIANT, RunWithoutWait
from measure.launching import COMPILE_SOON, write_inputs
from project import ROOT

SHORTENED = 0.5
"""Ratio of medians from which on windows are not shorter. Other work on the machine moves it by less than that."""
LARGE = {"num_train": 800, "image_shape": (32, 32, 3), "num_test": 4}
"""Steps of several milliseconds."""


TRAIN, WITHOUT_WAIT = "howmanygpus.measure.loop.train", "howmanygpus_tools.check_gpu.without_wait"


def write_spec(folder, framework, **changes):
    """Write the inputs of a run to a folder, and return its specification."""
    entry = FRAMEWORKS[framework]
    names = {"framework": framework, "family": entry.family, "strategy": entry.strategy, "launcher": entry.launcher}
    request = {"global_batch_size": 64, "epochs": 1, "window_steps": 10, "prefetch": 5, "study": STUDY}
    return write_inputs(folder, make_spec(**names, **request | changes), **LARGE)


def train(python, folder, module, **variables):
    """Be one process of a run."""
    command = [python, "-m", module, "--attempt", str(folder), "--started-at", str(time.time())]
    paths = {"PYTHONPATH": os.pathsep.join(map(str, (ROOT / "workflow" / "lib", ROOT / "tests")))}
    environment = os.environ | COMPILE_SOON | {"OMP_NUM_THREADS": "1"} | paths | variables
    return subprocess.run(command, env=environment, capture_output=True, text=True)


def read_windows(folder):
    """Return the median seconds of the odd and of the even windows after the first two, whose first step is slow."""
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    seconds = [event["elapsed_s"] for event in events if event["event"] == "window"]
    return statistics.median(seconds[2::2]), statistics.median(seconds[3::2])


@pytest.mark.parametrize("lies", ["wait_until_idle", "wait_until_idle,mark_step"])
@pytest.mark.parametrize("framework", ASYNCHRONOUS_ON_CPU)
def test_windows_take_as_long_with_signals_that_come_too_early(environment_python, tmp_path, framework, lies):
    """Each window is one step, most of which goes on after it was enqueued."""
    spec = write_spec(tmp_path, framework, window_steps=1, epochs=3, input="resident")
    (tmp_path / "spec.json").write_text(json.dumps(spec.to_dict()))
    python = environment_python(FRAMEWORKS[framework].environments["cpu"])
    result = train(python, tmp_path, "measure.lying", LIES=lies)
    assert result.returncode == 0, result.stderr[-3000:]
    lying_s, honest_s = read_windows(tmp_path)
    # Without the other signals a window would only have the time in which its step is enqueued.
    assert lying_s > SHORTENED * honest_s


@pytest.mark.parametrize("framework", ASYNCHRONOUS_ON_CPU)
def test_an_honest_run_of_short_windows_is_completed(environment_python, tmp_path, framework):
    spec = write_spec(tmp_path, framework, window_steps=1)
    (tmp_path / "spec.json").write_text(json.dumps(spec.to_dict()))
    result = train(environment_python(FRAMEWORKS[framework].environments["cpu"]), tmp_path, TRAIN)
    assert result.returncode == 0, result.stderr[-3000:]
    outcome = json.loads((tmp_path / "outcome.json").read_text())
    assert (outcome["status"], outcome["reason"]) == ("completed", "")


def test_the_check_of_a_gpu_trains_without_wait_through_the_launcher(environment_python, tmp_path):
    changes = {"window_steps": 1, "epochs": 3, "input": "resident"}
    spec = write_spec(tmp_path / "inputs", "jax_sharding", variant=VARIANT, **changes)
    (tmp_path / "verdict.json").write_text(json.dumps({"status": "passed", "reason": ""}))
    run = RunWithoutWait(tmp_path / "waits", spec.to_dict(), "", str(tmp_path / "verdict.json"), {}, shows_it=True)
    assert run.read_outcome() is None
    command = run.create_attempt(environment_python("jax-cpu"))
    environment = os.environ | COMPILE_SOON | {"PYTHONPATH": str(ROOT / "workflow" / "lib")}
    result = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[-3000:]
    record, row = run.read_outcome(), describe_wait(run, "")
    assert (row["status"], row["reason"], row["problem"]) == ("completed", "", "")
    assert row["with_wait_s"] > 0 and record["parity"] == "passed"
    assert run.read_last_attempt() is None and not (tmp_path / "results").exists()


def test_a_run_of_a_study_is_not_trained_without_wait(tmp_path):
    spec = write_spec(tmp_path, "pytorch_ddp", study="first")
    (tmp_path / "spec.json").write_text(json.dumps(spec.to_dict()))
    result = train(sys.executable, tmp_path, WITHOUT_WAIT)
    assert result.returncode == 1 and "first: this run belongs to a study, and without waits" in result.stderr
    assert not (tmp_path / "outcome.json").exists()
