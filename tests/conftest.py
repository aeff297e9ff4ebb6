"""Fixtures that several test folders share."""

import os
import tempfile

import pytest

from environments import build, read_python
from project import Project, study
from training.launching import COMPILE_SOON


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


@pytest.fixture
def compile_soon(monkeypatch):
    """For tests in which it matters little how fast the compiled code is."""
    for name, value in COMPILE_SOON.items():
        monkeypatch.setenv(name, value)


@pytest.fixture(scope="session")
def prepared(tmp_path_factory):
    """Data and weights of `study`, which take longer to make than its fake runs."""
    project = Project(tmp_path_factory.mktemp("prepared") / "project")
    project.write_config(small=study())
    project.snakemake("--until", "prepare_arrays", "initialize_weights")
    return project


@pytest.fixture(scope="session")
def environment_record(tmp_path_factory):
    """A function from an environment's name to its record; builds it in the cache if it is not there."""
    folder = tmp_path_factory.mktemp("environments")
    return lambda name: build(name, folder)


@pytest.fixture(scope="session")
def environment_python(environment_record):
    """A function from an environment's name to its Python."""
    return lambda name: read_python(environment_record(name))
