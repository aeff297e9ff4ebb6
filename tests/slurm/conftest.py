"""A cluster for the tests of this folder, or the reason why there is none; and a project that uses it."""

import pytest
import yaml

from project import Project
from slurm.cluster import CORES_PER_NODE, GPUS_PER_NODE, Cluster, find_obstacle

DEVICE = {
    **{"kind": "cpu", "devices_per_node": GPUS_PER_NODE, "max_nodes": 2},
    **{"cores_per_device": CORES_PER_NODE // GPUS_PER_NODE, "memory_per_device_mb": 2000, "partition": "gpu"},
    **{"request": "gpu:fake:{n}", "nodes": "shared"},
}
"""A pretend GPU, on which processor cores do the work. A node's tasks share this host's cores: they are not bound."""
QUICK = {"slurm-init-seconds-before-status-checks": 2, "seconds-between-status-checks": 2, "latency-wait": 5}


class ClusterProject(Project):
    """A copy of the project that submits its runs to the test cluster."""

    profile = "profiles/slurm"

    def __init__(self, folder, cluster: Cluster, fakes=(), **device):
        super().__init__(folder, fakes)
        self.cluster = cluster
        self.write_machine(**device)
        self.edit_profile(**QUICK)

    def write_machine(self, slurm=None, **device) -> None:
        """The machine file, with one kind of device; changed by keyword."""
        shared = {"bind_cores": False, "rendezvous_timeout_s": 60} | (slurm or {})
        machine = {"scheduler": "slurm", "devices": {"fake": DEVICE | device}, "slurm": shared}
        (self.folder / "profiles" / "slurm" / "machine.yaml").write_text(yaml.safe_dump(machine))

    def edit_profile(self, **changes) -> None:
        path = self.folder / "profiles" / "slurm" / "config.yaml"
        path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | changes))

    def environment(self) -> dict[str, str]:
        return super().environment() | self.cluster.environment()


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    if obstacle := find_obstacle():
        pytest.skip(obstacle)
    with Cluster(tmp_path_factory.mktemp("cluster")) as started:
        yield started


@pytest.fixture
def project(cluster, tmp_path):
    """With the backends `sleeping`, one process for all devices, and `pacing`, one for each."""
    project = ClusterProject(tmp_path / "project", cluster)
    project.add_fake("sleeping")
    project.add_fake("pacing", launcher="per_device")
    yield project
    cluster.run("scancel", "--user=root")
    for process in project.processes():
        process.kill()
