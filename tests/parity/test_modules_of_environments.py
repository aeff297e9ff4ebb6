"""No module that an environment has is missing in envs/modules.json, by which imports of users' models are refused."""

import json
from pathlib import Path

import pytest

from howmanygpus.plan.frameworks import FRAMEWORKS
from howmanygpus.plan.own.modules import KNOWN, list_installed
from project import ROOT


@pytest.mark.parametrize("name", sorted({entry.environments["cpu"] for entry in FRAMEWORKS.values()}))
def test_every_installed_module_is_known(name, environment_python):
    installed = list_installed(Path(environment_python(name)).parent.parent)
    known = json.loads((ROOT / KNOWN).read_text())[name]["modules"]
    assert "numpy" in installed and installed <= set(known), "run `make references`"
