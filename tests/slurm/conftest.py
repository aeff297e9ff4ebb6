"""A cluster for the tests of this folder, or the reason why there is none."""

import pytest

from slurm.cluster import Cluster, find_obstacle


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    if obstacle := find_obstacle():
        pytest.skip(obstacle)
    with Cluster(tmp_path_factory.mktemp("cluster")) as started:
        yield started
