"""
A backend whose wait_until_idle does not wait is found out.

This is tested with the frameworks whose steps go on after they have returned on a CPU too. The others complete each
step before it returns there, so that their waits have nothing to wait for.
"""

import json
import os
import subprocess
import time

import pytest

from howmanygpus.plan.frameworks import FRAMEWORKS
from project import ROOT
from specs import make_spec
from training.launching import COMPILE_SOON, write_inputs

ASYNCHRONOUS = ("jax_sharding", "mxnet_gluon")
SCRIPT = """
import sys
from howmanygpus.train.loop import train
load = train.load_backend

def load_without_wait(spec):
    backend = load(spec)
    if spec.variant == "without_wait":
        backend.wait_until_idle = lambda self: None
    return backend

train.load_backend = load_without_wait
train.main()
"""
LARGE = {"num_train": 800, "image_shape": (32, 32, 3), "num_test": 4}
"""Steps of several milliseconds, so that those at the end of a window are a large part of its time."""


@pytest.mark.parametrize(("variant", "status"), [("base", "completed"), ("without_wait", "clock_mismatch")])
@pytest.mark.parametrize("framework", ASYNCHRONOUS)
def test_a_wait_that_does_not_wait_is_found_out(environment_python, tmp_path, framework, variant, status):
    entry = FRAMEWORKS[framework]
    names = {"framework": framework, "family": entry.family, "strategy": entry.strategy, "launcher": entry.launcher}
    request = {"global_batch_size": 64, "epochs": 1, "window_steps": 10, "prefetch": 5, "variant": variant}
    spec = write_inputs(tmp_path, make_spec(**names, **request), **LARGE)
    (tmp_path / "spec.json").write_text(json.dumps(spec.to_dict()))
    options = ["--attempt", str(tmp_path), "--started-at", str(time.time())]
    command = [environment_python(entry.environments["cpu"]), "-c", SCRIPT, *options]
    environment = os.environ | COMPILE_SOON | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "workflow" / "lib")}
    result = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[-3000:]
    outcome = json.loads((tmp_path / "outcome.json").read_text())
    assert outcome["status"] == status, (outcome["reason"], outcome["phases_s"])
