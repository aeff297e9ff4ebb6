"""The loops of an expert (benchmarks/gpu/expert.py) train the project's networks, here on a CPU."""

import json
import os
import subprocess

import pytest

from project import ROOT

CONFIG = {
    "datasets": {"images": {"options": {"image_shape": [8, 8, 3], "num_classes": 10}}},
    "studies": {
        "study": {"dataset": "images", "model": "small_cnn", "per_device_batch_size": [4], "precision": ["bf16"]}
        | {"optimizer": {"learning_rate": 0.01, "momentum": 0.9}}
    },
}


@pytest.mark.parametrize(
    ("environment", "ways"), [("pytorch-cpu", ["nchw", "nhwc", "compile", "graphs"]), ("jax-cpu", ["jax"])]
)
def test_every_way_trains_and_says_its_rate(environment_python, tmp_path, environment, ways):
    """torch.compile is called, but does not compile, which takes minutes and needs a compiler."""
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    command = [environment_python(environment), str(ROOT / "benchmarks" / "gpu" / "expert.py"), "--config"]
    command += [str(tmp_path / "config.json"), "--study", "study", "--steps", "3", *ways]
    variables = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | {
        "TORCHDYNAMO_DISABLE": "1",
        "OMP_NUM_THREADS": "1",
    }
    ended = subprocess.run(command, env=variables, capture_output=True, text=True)
    rows = [json.loads(line) for line in ended.stdout.splitlines()]
    assert [row["way"] for row in rows] == ways, ended.stderr[-3000:]
    for row in rows:
        assert "error" not in row, row["error"]
        assert row["images_per_s"] == pytest.approx(4 / row["step_s"]) and row["host_step_s"] <= row["step_s"]
        assert 0 < row["loss"] < 5 and (row["model"], row["device"]) == ("small_cnn", "cpu")
    assert ended.returncode == 0
