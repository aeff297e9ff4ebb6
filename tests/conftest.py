"""Fixtures that several test folders share."""

import os
import tempfile

import pytest

from environments import build, read_python
from project import Project


@pytest.fixture(scope="session", autouse=True)
def own_temporary_folder(tmp_path_factory):
    """Runs that are measured wait for each other by a file there: let those of two test sessions not do so."""
    tempfile.tempdir = os.environ["TMPDIR"] = str(tmp_path_factory.mktemp("tmp"))


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
            found[name] = read_python(build(name, folder))
        return found[name]

    return get
