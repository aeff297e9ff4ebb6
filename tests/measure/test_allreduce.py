"""PyTorch exchanges as many bytes as a network has parameters, whole or sharded over devices."""

import json
import os
import subprocess

import pytest

from project import ROOT


@pytest.mark.parametrize("options", [[], ["--sharded"]], ids=["whole", "sharded"])
def test_an_array_of_any_number_of_bytes_is_exchanged(environment_python, tmp_path, options):
    """A number that the devices do not divide, as of most networks."""
    device = {"device": "cpu", "device_kind": "cpu", "cores_per_device": 1}
    command = [environment_python("pytorch-cpu"), "-m", "howmanygpus.measure.allreduce", "--device", json.dumps(device)]
    command += ["--num-devices", "2", "--num-nodes", "1", "--folder", str(tmp_path), "--bytes", str(4 * 1001), *options]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "workflow" / "lib")}
    subprocess.run(command, env=environment, check=True, timeout=300)
    found = json.loads((tmp_path / "allreduce.json").read_text())
    (size,) = found["sizes"]
    assert found["is_sharded"] == bool(options) and size["median_s"] > 0
    assert size["size_mib"] == pytest.approx(4 * 1001 / 2**20)
