"""Every environment that a framework names can be built again as it was."""

import re

import pytest

from benchplan.code import environment_pins
from benchplan.frameworks import FRAMEWORKS
from project import ROOT

NAMES = sorted({name for entry in FRAMEWORKS.values() for name in entry.environments.values()})
EXACT = re.compile(r"[A-Za-z0-9_.-]+(\[[a-z0-9,-]+\])?==[A-Za-z0-9.+]+")


@pytest.mark.parametrize("name", NAMES)
def test_every_environment_is_pinned_exactly_and_can_run_the_measured_side(name, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert "envs/measured.txt" in environment_pins(name)
    for path in environment_pins(name):
        for line in (ROOT / path).read_text().splitlines():
            if line and not line.startswith(("#", "-r ", "--")):
                assert EXACT.fullmatch(line), f"{path}: {line}"
