"""
A backend whose wait_until_idle does not wait is found out.

This is tested with the frameworks whose steps go on after they have returned on a CPU too. The others complete each
step before it returns there, so that their waits have nothing to wait for. `make check-gpu` shows it for them on a GPU,
by the same modules.
"""

import json
import os
import subprocess
import sys
import time

import pytest

from howmanygpus.plan.check_gpu import ASYNCHRONOUS_ON_CPU
from howmanygpus.plan.frameworks import FRAMEWORKS
from howmanygpus.train.preflight.waits import STUDY, VARIANT, WaitRun
from project import ROOT
from specs import make_spec
from training.launching import COMPILE_SOON, write_inputs

LARGE = {"num_train": 800, "image_shape": (32, 32, 3), "num_test": 4}
"""Steps of several milliseconds, so that those at the end of a window are a large part of its time."""


TRAIN, WITHOUT_WAIT = "howmanygpus.train.loop.train", "howmanygpus.train.preflight.without_wait"


def write_spec(folder, framework, **changes):
    """Write the inputs of a run to a folder, and return its specification."""
    entry = FRAMEWORKS[framework]
    names = {"framework": framework, "family": entry.family, "strategy": entry.strategy, "launcher": entry.launcher}
    request = {"global_batch_size": 64, "epochs": 1, "window_steps": 10, "prefetch": 5, "study": STUDY}
    return write_inputs(folder, make_spec(**names, **request | changes), **LARGE)


def train(python, folder, module):
    """Be one process of a run."""
    command = [python, "-m", module, "--attempt", str(folder), "--started-at", str(time.time())]
    environment = os.environ | COMPILE_SOON | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "workflow" / "lib")}
    return subprocess.run(command, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize(("module", "status"), [(TRAIN, "completed"), (WITHOUT_WAIT, "clock_mismatch")])
@pytest.mark.parametrize("framework", ASYNCHRONOUS_ON_CPU)
def test_a_wait_that_does_not_wait_is_found_out(environment_python, tmp_path, framework, module, status):
    spec = write_spec(tmp_path, framework)
    (tmp_path / "spec.json").write_text(json.dumps(spec.to_dict()))
    result = train(environment_python(FRAMEWORKS[framework].environments["cpu"]), tmp_path, module)
    assert result.returncode == 0, result.stderr[-3000:]
    outcome = json.loads((tmp_path / "outcome.json").read_text())
    assert outcome["status"] == status, (outcome["reason"], outcome["phases_s"])


def test_the_check_of_a_gpu_trains_without_wait_through_the_launcher(environment_python, tmp_path):
    spec = write_spec(tmp_path / "inputs", "jax_sharding", variant=VARIANT, window_steps=1)
    (tmp_path / "verdict.json").write_text(json.dumps({"status": "passed", "reason": ""}))
    run = WaitRun(tmp_path / "waits", spec.to_dict(), "", str(tmp_path / "verdict.json"), {}, shows_it=True)
    assert run.find_outcome() is None
    command = run.create_attempt(environment_python("jax-cpu"))
    environment = os.environ | COMPILE_SOON | {"PYTHONPATH": str(ROOT / "workflow" / "lib")}
    result = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[-3000:]
    record = run.find_outcome()
    assert record["status"] == "clock_mismatch", (record["reason"], record["phases_s"])
    assert record["parity"] == "passed" and record["phases_s"]["late"] > 0
    assert run.find_last_attempt() is None and not (tmp_path / "results").exists()


def test_a_run_of_a_study_is_not_trained_without_wait(tmp_path):
    spec = write_spec(tmp_path, "pytorch_ddp", study="first")
    (tmp_path / "spec.json").write_text(json.dumps(spec.to_dict()))
    result = train(sys.executable, tmp_path, WITHOUT_WAIT)
    assert result.returncode == 1 and "first: this run belongs to a study, and without waits" in result.stderr
    assert not (tmp_path / "outcome.json").exists()
