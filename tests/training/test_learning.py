"""
Every framework takes the steps that the study defines: update rule, weight decay, schedule and accumulated batches.

The expected weights are computed in float64 by the formulas of the parity gate's reference. Each framework trains on as
many devices as it supports on CPUs, up to two.
"""

import json
import os
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from howmanygpus.plan.frameworks import FRAMEWORKS
from project import ROOT
from training.launching import BACKENDS, BY_MPI, train

UPDATES_NOISE = 5e-4
"""Relative tolerance, as in test_backends.py. Each setting of SETTINGS changes some array by 100 times as much."""
COMPUTE = Path(__file__).with_name("compute_updates.py")
DATA = {"num_train": 25, "num_test": 13}
LENGTH = {"epochs": 3, "data": DATA, "random_flip": True, "random_crop_padding": 1}
SETTINGS = {
    "sgd": {
        **{"learning_rate": 0.05, "weight_decay": 0.5, "weight_decay_on": "weights"},
        **{"lr_schedule": "step", "lr_step_epochs": [1, 2], "lr_step_factor": 0.3},
    },
    "adamw": {
        **{"name": "adamw", "learning_rate": 0.003, "epsilon": 1e-3, "weight_decay": 6.0, "weight_decay_on": "weights"},
        **{"lr_schedule": "linear", "lr_warmup_epochs": 1},
    },
}
"""With larger rates of adamw, rounding decides at some input of a ReLU; differences are then up to 5e-2."""
ACCUMULATE = {"sgd": 1, "adamw": 2}
"""Batches for one step. The network has no BatchNorm, so that half a batch twice is the same as a whole one."""
OTHERS = {
    "sgd": [{"weight_decay_on": "all"}, {"lr_step_epochs": [1]}, {"lr_schedule": "constant"}],
    "adamw": [{"name": "adam"}, {"lr_schedule": "cosine"}, {"weight_decay_on": "all"}, {"weight_decay": 0.0}],
}
"""Changes of each setting that the comparison must notice."""


@pytest.fixture(scope="session")
def finished(environment_python, tmp_path_factory):
    """Return a function that trains one setting with one framework, once."""
    done = {}

    def get(framework: str, optimizer: str):
        key = (framework, optimizer)
        if key not in done:
            entry = FRAMEWORKS[framework]
            request = {"num_gpus": min(2, entry.max_devices.get("cpu", 2)), "global_batch_size": 8, **BY_MPI, **LENGTH}
            request |= {"optimizer": SETTINGS[optimizer], "accumulate": ACCUMULATE[optimizer]}
            folder = tmp_path_factory.mktemp(f"{framework}_")
            done[key] = train(environment_python(entry.environments["cpu"]), folder, framework, **request)
            assert done[key].exit_status == 0, done[key].output[-3000:]
        return done[key]

    return get


@pytest.fixture(scope="session")
def compute(environment_python, tmp_path_factory):
    """Return a function that computes the update of a finished run, with some of its optimizer's keys changed."""

    def get(run, **changes) -> dict[str, np.ndarray]:
        folder = tmp_path_factory.mktemp("reference")
        spec = run.record["spec"]
        spec["optimizer"] |= changes
        (folder / "spec.json").write_text(json.dumps(spec))
        command = [environment_python("pytorch-cpu"), str(COMPUTE), str(folder / "spec.json"), spec["weights_file"]]
        environment = os.environ | {"PYTHONPATH": str(ROOT / "workflow" / "lib")}
        result = subprocess.run([*command, str(folder / "final")], env=environment, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr[-3000:]
        initial, final = load_file(spec["weights_file"]), load_file(folder / "final")
        return {name: initial[name] - final[name] for name in initial}

    return get


@pytest.fixture(scope="session")
def expected(finished, compute):
    """The update of each setting."""
    return {name: compute(finished(BACKENDS[0], name)) for name in SETTINGS}


def difference(first: dict, second: dict) -> float:
    """Return the maximum over the arrays of max|a - b| / max|b|."""
    assert first.keys() == second.keys()
    return max(np.abs(first[name] - second[name]).max() / np.abs(second[name]).max() for name in second)


@pytest.mark.parametrize("framework", BACKENDS)
@pytest.mark.parametrize("optimizer", SETTINGS)
def test_updates_are_those_of_the_formulas(finished, expected, framework, optimizer):
    run = finished(framework, optimizer)
    assert run.record["steps"] == 9 and run.record["images_seen"] == 72
    assert re.search(rf"{optimizer}[,_]", run.record["settings"]["optimizer"].lower())
    assert difference(run.update, expected[optimizer]) < UPDATES_NOISE


@pytest.mark.parametrize("optimizer", SETTINGS)
def test_another_rule_decay_or_schedule_would_be_noticed(finished, compute, expected, optimizer):
    for change in OTHERS[optimizer]:
        other = compute(finished(BACKENDS[0], optimizer), **change)
        assert difference(other, expected[optimizer]) > 20 * UPDATES_NOISE, change
