"""Provide a cluster for the tests of this folder, or the reason why there is none, and a project that uses it."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import pytest

from howmanygpus.files import hold_lock
from howmanygpus.site.environments.cache import resolve_cache
from slurm.cluster import Cluster, find_obstacle
from slurm.isolation import isolate_configuration
from slurm.project import ClusterProject


@pytest.fixture(scope="session")
def is_isolated(tmp_path_factory) -> bool:
    """Whether clusters of other processes can run at the same time."""
    return isolate_configuration(tmp_path_factory.mktemp("etc"))


@pytest.fixture(scope="session")
def run_cluster(is_isolated, tmp_path_factory):
    """Return a function whose context has a cluster. The test is skipped if there can be none."""

    @contextmanager
    def run(accounting: bool = False) -> Iterator[Cluster]:
        with nullcontext() if is_isolated else hold_lock(resolve_cache().with_name("test-cluster.lock")):
            if obstacle := find_obstacle(accounting):
                pytest.skip(obstacle)
            with Cluster(tmp_path_factory.mktemp("cluster"), accounting=accounting) as started:
                yield started

    return run


@pytest.fixture(scope="module")
def cluster(run_cluster):
    with run_cluster() as started:
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
    project.kill_processes()
