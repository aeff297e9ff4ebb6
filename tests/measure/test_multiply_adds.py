"""Networks do the arithmetic of the published ones: strides, kernels and paddings are where the papers have them."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from project import ROOT
from published_networks import read_networks

NETWORKS = read_networks()


@pytest.fixture(scope="module")
def counted(environment_python, kept):
    sizes = {name: [network.image_shape, network.num_classes] for name, network in NETWORKS.items()}

    def make(folder):
        script = Path(__file__).with_name("count_multiply_adds.py")
        command = [environment_python("pytorch-cpu"), str(script), json.dumps(sizes)]
        environment = os.environ | {"PYTHONPATH": str(ROOT / "workflow" / "lib")}
        result = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr[-3000:]
        (folder / "counted.json").write_text(result.stdout.splitlines()[-1])

    return json.loads((kept("multiply-adds", "pytorch-cpu", make, sizes) / "counted.json").read_text())


@pytest.mark.parametrize("network", NETWORKS.values(), ids=lambda network: network.name)
def test_a_network_takes_the_published_multiply_adds(network, counted):
    assert counted[network.name] == network.multiply_adds
    if network.published_multiply_adds:
        assert network.multiply_adds == pytest.approx(network.published_multiply_adds, rel=0.01)
