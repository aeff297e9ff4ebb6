"""Networks do the arithmetic of the published ones: strides, kernels and paddings are where the papers have them."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from helpers.published_networks import read_networks
from helpers.specs import make_spec
from howmanygpus.report.tables.helpers.multiply_adds import count_multiply_adds
from project import ROOT

NETWORKS = read_networks()


OTHER_SHAPES = {
    "resnet18": ((96, 160, 1), 10),
    "resnet50": ((64, 96, 3), 14),
    "densenet121": ((96, 64, 1), 14),
    "resnet44": ((28, 40, 1), 7),
    "alexnet": ((224, 224, 1), 7),
    "inception_v3": ((299, 299, 1), 7),
    "vit_b16": ((224, 224, 1), 7),
}
"""Shapes of images and numbers of classes that networks were not written for."""


@pytest.fixture(scope="module")
def count(environment_python, kept):
    """Return a function that counts the multiply-adds of networks in PyTorch."""

    def count_networks(sizes):
        def make(folder):
            script = Path(__file__).with_name("count_multiply_adds.py")
            command = [environment_python("pytorch-cpu"), str(script), json.dumps(sizes)]
            environment = os.environ | {"PYTHONPATH": str(ROOT / "workflow" / "lib")}
            result = subprocess.run(command, env=environment, capture_output=True, text=True)
            assert result.returncode == 0, result.stderr[-3000:]
            (folder / "counted.json").write_text(result.stdout.splitlines()[-1])

        return json.loads((kept("multiply-adds", "pytorch-cpu", make, sizes) / "counted.json").read_text())

    return count_networks


@pytest.fixture(scope="module")
def counted(count):
    return count({name: [network.image_shape, network.num_classes] for name, network in NETWORKS.items()})


@pytest.fixture(scope="module")
def counted_otherwise(count):
    return count({name: [shape, num_classes] for name, (shape, num_classes) in OTHER_SHAPES.items()})


@pytest.mark.parametrize("network", NETWORKS.values(), ids=lambda network: network.name)
def test_a_network_takes_the_published_multiply_adds(network, counted):
    assert counted[network.name] == network.multiply_adds
    if network.published_multiply_adds:
        assert network.multiply_adds == pytest.approx(network.published_multiply_adds, rel=0.01)


@pytest.mark.parametrize("name", OTHER_SHAPES)
def test_the_table_of_utilisation_knows_the_multiply_adds_of_other_images(name, counted_otherwise):
    assert count_multiply_adds(make_spec(model=name).to_dict(), *OTHER_SHAPES[name]) == counted_otherwise[name]
