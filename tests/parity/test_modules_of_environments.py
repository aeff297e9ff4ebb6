"""No module that an environment has is missing in envs/modules.json, by which imports of users' models are refused."""

import json
from pathlib import Path

import pytest

from howmanygpus.plan.own.model import FAMILIES, find_environment
from howmanygpus.plan.own.modules import KNOWN, list_installed
from project import ROOT


@pytest.mark.parametrize("family", FAMILIES)
def test_every_installed_module_is_known(family, environment_python):
    name = find_environment(family)
    installed = list_installed(Path(environment_python(name)).parent.parent)
    known = json.loads((ROOT / KNOWN).read_text())[name]["modules"]
    assert "numpy" in installed and installed <= set(known), "run `make references`"
