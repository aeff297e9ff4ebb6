"""Gradient noise is what a constructed problem has, and measuring it changes nothing of the training."""

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from howmanygpus.registry import FRAMEWORKS
from howmanygpus.report.columns import SAME_PLACE
from howmanygpus.report.tables.batch_sizes import SIZES, average_noise
from howmanygpus.report.tables.gradient_noise import estimate
from measure.asked import ON_TWO
from project import ROOT

IDENTITY = dict.fromkeys([*SAME_PLACE, *SIZES], 1)


IMAGES, PARTS = 4, 8
"""Images of a small batch, and small batches of a measurement."""


@pytest.fixture(scope="module")
def known(environment_python, kept):
    """What is measured of constructed problems.

    100 entries of 0.1 have a squared norm of 1, and deviations of 0.5 a summed variance of 25.
    """

    def make(folder):
        script = Path(__file__).with_name("check_noise.py")
        options = {"gradient": 0.1, "deviation": 0.5, "num-pixels": 100, "images": IMAGES, "parts": PARTS}
        command = [environment_python("pytorch-cpu"), script, *(f"--{key}={value}" for key, value in options.items())]
        environment = os.environ | {"PYTHONPATH": str(ROOT / "workflow" / "lib"), "OMP_NUM_THREADS": "1"}
        result = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr[-3000:]
        (folder / "known.json").write_text(result.stdout)

    return json.loads((kept("gradient-noise", "pytorch-cpu", make) / "known.json").read_text())


def test_the_noise_scale_of_a_known_problem(known):
    sizes = {"images_small": IMAGES, "images_big": IMAGES * PARTS, "step": 1}
    events = [sizes | {"squared_norm_small": small, "squared_norm_big": big} for small, big in known["measured"]]
    table = pd.DataFrame([IDENTITY | event | estimate(event) for event in events])
    # The standard errors of the means over 200 measurements are 1.2 % and 0.4 %.
    assert table["gradient_squared"].mean() == pytest.approx(1.0, rel=0.05)
    assert table["variance_trace"].mean() == pytest.approx(25.0, rel=0.02)
    assert average_noise(table)["noise_scale"].item() == pytest.approx(25.0, rel=0.05)


def test_gradients_that_are_zero_in_fp16_are_measured_by_the_loss_scale(known):
    unscaled, scaled = known["in_fp16"]
    assert unscaled == [0.0, 0.0]
    assert scaled == pytest.approx([4e-16, 4e-16], rel=0.01)


MEASURING = [name for name, entry in FRAMEWORKS.items() if entry.measures_noise and name in ON_TWO]
NORMALIZED = {"model": "resnet44", "model_options": {"blocks": 1, "width": 4}}
"""A network with running statistics, which a measurement must leave as they are."""
REQUEST = {"num_gpus": 2, "global_batch_size": 8, "epochs": 2, "horovod_controller": "mpi"}
BIG, SMALL = "squared_norm_big", "squared_norm_small"


def measure(train_once, framework: str, **changes):
    (finished,) = train_once(framework, [{"gradient_noise_every_epochs": 1, **REQUEST, **changes}])
    assert finished.exit_status == 0, finished.output
    return finished, [event for event in finished.events if event["event"] == "gradient_noise"]


@pytest.mark.parametrize("network", ["small_cnn", "resnet44"])
@pytest.mark.parametrize("framework", MEASURING)
def test_every_framework_measures_the_noise_that_pytorch_does(train_once, framework, network):
    changes = {"optimizer": {"learning_rate": 1e-3}} | ({} if network == "small_cnn" else NORMALIZED)
    _, expected = measure(train_once, "pytorch_ddp", **changes)
    _, found = measure(train_once, framework, **changes)
    for one, other in zip(found, expected, strict=True):
        assert (one["step"], one["images_small"], one["images_big"]) == (other["step"], 4, 32)
        assert [one[name] for name in (SMALL, BIG)] == pytest.approx([other[name] for name in (SMALL, BIG)], rel=0.01)


@pytest.mark.parametrize("framework", MEASURING)
def test_measuring_changes_no_training_and_covers_the_devices(train_once, framework):
    request, finished = REQUEST | NORMALIZED, {}
    for every in (None, 1):
        (finished[every],) = train_once(framework, [{"gradient_noise_every_epochs": every, **request}])
        assert finished[every].exit_status == 0, finished[every].output
    plain, measured = finished[None].final_weights, finished[1].final_weights
    assert all(np.array_equal(plain[name], measured[name]) for name in plain)
    events = [event for event in finished[1].events if event["event"] == "gradient_noise"]
    assert [(event["epoch"], event["step"]) for event in events] == [(1, 5), (2, 10)]
    for event in events:
        assert (event["images_small"], event["images_big"]) == (4, 32)
        assert 0 < event["squared_norm_big"] < event["squared_norm_small"]
        assert event["squared_norm_big"] > event["squared_norm_small"] / 8, "a sum over one process alone is smaller"
