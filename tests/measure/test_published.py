"""
The networks with converted weights compute what torchvision's own networks compute with the published arrays.

torchvision is in no environment of the workflow. Install it without its dependencies into a folder, and name that:

    pip install --no-deps --target FOLDER torchvision==0.28.0
    HOWMANYGPUS_TORCHVISION=FOLDER .venv/bin/python -m pytest tests/measure/test_published.py

tests/prepare/test_published.py checks the names and shapes of all arrays without it.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest

from hanging import HANG_S
from howmanygpus.study.networks import list_pretrained
from project import ROOT

COMPARE = Path(__file__).with_name("compare_published.py")


@pytest.fixture(scope="module")
def compared(environment_python) -> dict[str, dict]:
    folder = os.environ.get("HOWMANYGPUS_TORCHVISION")
    if not folder:
        pytest.skip("HOWMANYGPUS_TORCHVISION names no folder with torchvision")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "workflow" / "lib"), folder])}
    command = [environment_python("pytorch-cpu"), COMPARE, *list_pretrained()]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=HANG_S)
    assert done.returncode == 0, done.stderr[-2000:]
    return {line["model"]: line for line in map(json.loads, done.stdout.splitlines())}


@pytest.mark.parametrize("model", list_pretrained())
def test_logits_match_torchvision(compared, model):
    # float32 sums in another order: at most 1e-6 was seen. An array in a wrong place or layout is off by 1e-1.
    assert compared[model]["difference"] < 1e-5 * compared[model]["largest"]
