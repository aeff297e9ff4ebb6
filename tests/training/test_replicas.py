"""Each replica of nn.DataParallel computes its own output, in the `best` tier too."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from project import ROOT
from specs import make_spec
from training.launching import write_inputs


@pytest.fixture(scope="module")
def compute(environment_python, tmp_path_factory):
    """Return a function that computes the shapes of a network's output and of its replica's."""
    folder = tmp_path_factory.mktemp("replicas")
    spec = write_inputs(folder, make_spec(tier="best", device_kind="cuda", family="torch", strategy="dp"))
    (folder / "spec.json").write_text(json.dumps(spec.to_dict()))

    def get(compiles):
        script = Path(__file__).with_name("check_replicas.py")
        command = [environment_python("pytorch-cpu"), script, "--spec", folder / "spec.json"]
        environment = os.environ | {"PYTHONPATH": str(ROOT / "workflow" / "lib")}
        options = ["--compiles", json.dumps(compiles)]
        result = subprocess.run([*command, *options], env=environment, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr[-3000:]
        return json.loads(result.stdout)

    return get


@pytest.mark.parametrize(("compiles", "own"), [(None, True), (True, False)])
def test_a_replica_computes_its_own_output(compute, compiles, own):
    """The replica's model only flattens. What a compiled network's replica computes is the original's output."""
    shapes = compute(compiles)
    assert (shapes["replica"] != shapes["network"]) == own
