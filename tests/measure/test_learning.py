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

from measure.asked import LARGEST, LEARNING, SETTINGS
from project import ROOT

UPDATES_NOISE = 5e-4
"""Relative tolerance, as in test_backends.py. Each setting of SETTINGS changes some array by 100 times as much."""
COMPUTE = Path(__file__).with_name("compute_updates.py")
OTHERS = {
    "sgd": [{"weight_decay_on": "all"}, {"lr_step_epochs": [1]}, {"lr_schedule": "constant"}],
    "adamw": [{"name": "adam"}, {"lr_schedule": "cosine"}, {"weight_decay_on": "all"}, {"weight_decay": 0.0}],
}
"""Changes of each setting that the comparison must notice."""


@pytest.fixture(scope="session")
def computed(run, environment_python, kept):
    """Return a function from a setting, and the position of one of its changes or None, to the update in float64."""
    first, num_gpus = LARGEST[0]
    specs = {name: run(first, num_gpus, **LEARNING[name]).record["spec"] for name in SETTINGS}
    initial = {name: load_file(spec["weights_file"]) for name, spec in specs.items()}

    def make(folder):
        words = []
        for name, spec in specs.items():
            for position, change in [(None, {}), *enumerate(OTHERS[name])]:
                path = folder / f"{name}.{position}.json"
                path.write_text(json.dumps(spec | {"optimizer": spec["optimizer"] | change}))
                words.append(str(path))
        environment = os.environ | {"PYTHONPATH": str(ROOT / "workflow" / "lib")}
        command = [environment_python("pytorch-cpu"), str(COMPUTE), *words]
        result = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr[-3000:]

    folder = kept("updates-in-float64", "pytorch-cpu", make)

    def get(name: str, position: int | None = None) -> dict[str, np.ndarray]:
        final = load_file(folder / f"{name}.{position}.safetensors")
        return {array: initial[name][array] - final[array] for array in final}

    return get


def difference(first: dict, second: dict) -> float:
    """Return the maximum over the arrays of max|a - b| / max|b|."""
    assert first.keys() == second.keys()
    return max(np.abs(first[name] - second[name]).max() / np.abs(second[name]).max() for name in second)


@pytest.mark.parametrize(("framework", "num_gpus"), LARGEST)
@pytest.mark.parametrize("optimizer", SETTINGS)
def test_updates_match_the_formulas(run, computed, framework, num_gpus, optimizer):
    finished = run(framework, num_gpus, **LEARNING[optimizer])
    assert finished.record["steps"] == 9 and finished.record["images_seen"] == 72
    assert re.search(rf"{optimizer}[,_]", finished.record["settings"]["optimizer"].lower())
    assert difference(finished.update, computed(optimizer)) < UPDATES_NOISE


@pytest.mark.parametrize("optimizer", SETTINGS)
def test_another_rule_decay_or_schedule_would_be_noticed(computed, optimizer):
    for position, change in enumerate(OTHERS[optimizer]):
        other = computed(optimizer, position)
        assert difference(other, computed(optimizer)) > 20 * UPDATES_NOISE, change
