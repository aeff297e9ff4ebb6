"""Fixtures that several test folders share."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchplan.code import environment_pins
from project import ROOT, Project


@pytest.fixture
def project(tmp_path):
    """A fresh copy of the project; whatever still runs in it when the test is over is killed."""
    project = Project(tmp_path / "project")
    yield project
    for process in project.processes():
        process.kill()


@pytest.fixture(scope="session")
def environment_python(tmp_path_factory):
    """A function from an environment's name to its Python; builds it in the cache if it is not there."""
    folder = tmp_path_factory.mktemp("environments")
    found: dict[str, str] = {}

    def get(name: str) -> str:
        if name not in found:
            record = Path(folder) / f"{name}.json"
            pins = environment_pins(name)
            script = [sys.executable, "workflow/scripts/build_environment.py", "--name", name]
            command = [*script, "--pins", *pins, "--record", str(record)]
            environment = {"PYTHONPATH": "workflow/lib", **os.environ}
            subprocess.run(command, cwd=ROOT, env=environment, check=True)
            found[name] = json.loads(record.read_text())["python"]
        return found[name]

    return get
