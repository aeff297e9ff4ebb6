"""Each replica of nn.DataParallel computes its own output, in the `best` tier too."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from helpers.specs import make_spec
from measure.launching import write_inputs
from project import ROOT

IS_OWN = {None: True, True: False}
"""Whether a replica computes its own output, by whether the network is compiled. None does as the backend."""


@pytest.fixture(scope="module")
def shapes(environment_python, kept):
    """Return the shapes of a network's output and of its replica's, by how the network is compiled."""

    def make(folder):
        spec = write_inputs(folder, make_spec(tier="best", device_kind="cuda", family="torch", strategy="dp"))
        (folder / "spec.json").write_text(json.dumps(spec.to_dict()))
        script = Path(__file__).with_name("check_replicas.py")
        command = [environment_python("pytorch-cpu"), script, "--spec", folder / "spec.json"]
        environment = os.environ | {"PYTHONPATH": str(ROOT / "workflow" / "lib")}
        options = ["--compiles", *map(json.dumps, IS_OWN)]
        result = subprocess.run([*command, *options], env=environment, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr[-3000:]
        (folder / "shapes.json").write_text(result.stdout)

    lines = (kept("replicas", "pytorch-cpu", make) / "shapes.json").read_text().splitlines()
    return dict(zip(IS_OWN, map(json.loads, lines), strict=True))


@pytest.mark.parametrize("compiles", IS_OWN)
def test_a_replica_computes_its_own_output(shapes, compiles):
    """The replica's model only flattens. What a compiled network's replica computes is the original's output."""
    seen = shapes[compiles]
    assert (seen["replica"] != seen["network"]) == IS_OWN[compiles]
