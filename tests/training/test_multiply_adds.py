"""Networks do the arithmetic of the published ones: strides, kernels and paddings are where the papers have them."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from project import ROOT

PUBLISHED = {
    **{"alexnet": 7.14e8, "resnet18": 1.81e9, "resnet50": 4.09e9, "densenet121": 2.83e9},
    **{"inception_v3": 5.71e9, "vit_b16": 1.756e10},
}
"""Multiply-adds of torchvision's networks for an image of 224x224 pixels, or 299x299 for inception_v3."""


@pytest.fixture(scope="module")
def counted(environment_python):
    command = [environment_python("pytorch-cpu"), str(Path(__file__).with_name("count_multiply_adds.py")), *PUBLISHED]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "workflow" / "lib")}
    result = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[-3000:]
    return json.loads(result.stdout.splitlines()[-1])


@pytest.mark.parametrize("model", PUBLISHED)
def test_a_network_takes_the_published_multiply_adds(model, counted):
    assert counted[model] == pytest.approx(PUBLISHED[model], rel=0.01)
