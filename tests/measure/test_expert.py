"""The loops of an expert (check_gpu/expert.py) train the project's networks, here on a CPU."""

import json
import os
import subprocess

import pytest

from project import ROOT

TASK = {"model": "small_cnn", "image_shape": [8, 8, 3], "num_classes": 10, "batch_size": 4}
TASK |= {"learning_rate": 0.01, "momentum": 0.9}


@pytest.mark.parametrize(
    ("environment", "ways"), [("pytorch-cpu", ["nchw", "nhwc", "compile", "graphs"]), ("jax-cpu", ["jax"])]
)
def test_every_way_trains_and_says_its_rate(environment_python, environment, ways):
    """torch.compile is called, but does not compile, which takes minutes and needs a compiler."""
    command = [environment_python(environment), "-m", "howmanygpus_tools.check_gpu.expert"]
    command += ["--task", json.dumps(TASK), "--steps", "3", *ways]
    library = {"PYTHONPATH": str(ROOT / "workflow" / "lib")}
    variables = os.environ | library | {"TORCHDYNAMO_DISABLE": "1", "OMP_NUM_THREADS": "1"}
    ended = subprocess.run(command, env=variables, capture_output=True, text=True)
    rows = [json.loads(line) for line in ended.stdout.splitlines()]
    assert [row["way"] for row in rows] == ways, ended.stderr[-3000:]
    for row in rows:
        assert "error" not in row, row["error"]
        assert row["images_per_s"] == pytest.approx(4 / row["step_s"]) and row["host_step_s"] <= row["step_s"]
        assert 0 < row["loss"] < 5 and (row["model"], row["device"]) == ("small_cnn", "cpu")
    assert ended.returncode == 0
