"""Provide a cluster for the tests of this folder, or the reason why there is none, and a project that uses it."""

import pytest

from slurm.cluster import Cluster, find_obstacle
from slurm.project import ClusterProject


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    if obstacle := find_obstacle():
        pytest.skip(obstacle)
    with Cluster(tmp_path_factory.mktemp("cluster")) as started:
        yield started


@pytest.fixture
def project(cluster, prepared, tmp_path):
    """Return a project with the backends `sleeping`, one process for all devices, and `pacing`, one for each device."""
    project = ClusterProject(tmp_path / "project", cluster)
    project.take_prepared(prepared)
    project.add_fake("sleeping")
    project.add_fake("pacing", launcher="per_device")
    yield project
    cluster.run("scancel", "--user=root")
    for process in project.processes():
        process.kill()
