"""The replicas of a user's Keras model draw different random numbers, as processes do."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from helpers.specs import make_spec
from measure.launching import write_inputs
from project import ROOT

STRATEGIES = ("mirrored", "fit_mirrored")
NET = """
import keras
from keras import layers

class Drop(layers.Layer):
    def __init__(self):
        super().__init__()
        self.generator = keras.random.SeedGenerator(1)

    def call(self, x, training=False):
        return keras.random.dropout(x, 0.5, seed=self.generator) if training else x

def build(image_shape, num_classes):
    inputs = keras.Input(image_shape)
    x = layers.Dense(64)(layers.Flatten()(inputs))
    return keras.Model(inputs, layers.Dense(num_classes)({drop}(x)))
"""
DROPS = {"layer": "layers.Dropout(0.5)", "generator": "Drop()"}


@pytest.fixture(scope="module")
def lines(environment_python, kept):
    def make(folder):
        spec = write_inputs(folder, make_spec(num_gpus=2, family="keras", strategy="mirrored"))
        (folder / "spec.json").write_text(json.dumps(spec.to_dict()))
        for name, drop in DROPS.items():
            (folder / f"{name}.py").write_text(NET.format(drop=drop))
        script = Path(__file__).with_name("check_own_draws.py")
        command = [environment_python("tensorflow-cpu"), script, "--spec", folder / "spec.json"]
        command += ["--models", *(folder / f"{name}.py" for name in DROPS), "--strategies", *STRATEGIES]
        environment = os.environ | {"PYTHONPATH": str(ROOT / "workflow" / "lib"), "CUDA_VISIBLE_DEVICES": ""}
        result = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr[-3000:]
        (folder / "printed.txt").write_text(result.stdout)

    printed = (kept("own-draws", "tensorflow-cpu", make) / "printed.txt").read_text()
    return [json.loads(line) for line in printed.splitlines() if line.startswith("{")]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("drop", DROPS)
def test_replicas_draw_different_masks(lines, drop, strategy):
    (seen,) = (line for line in lines if (line["model"], line["strategy"]) == (drop, strategy))
    assert not seen["same"]
