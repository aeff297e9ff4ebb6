"""The test cluster allocates pretend GPUs, runs steps over several nodes, and can lose nodes."""

import os
import re
import signal
import subprocess
import sys

import psutil
import pytest

from hanging import HANG_S
from howmanygpus.measure.launch.rendezvous import PORTS
from howmanygpus.site.jobs.invocations import read_start_ticks
from project import SANDBOX
from slurm.cluster import GPUS_PER_NODE, Cluster, is_left_over, wait_for

SHOW = 'echo "$SLURMD_NODENAME $SLURM_PROCID $CUDA_VISIBLE_DEVICES"'
MEET = 'touch "$0/$SLURM_JOB_ID"; while [ "$(ls "$0" | wc -l)" -lt 2 ]; do sleep 0.1; done'
"""Wait until two jobs run at the same time."""


SNAKEMAKE_BEFORE = """
import sys
from pathlib import Path
import forking
from slurm.cluster import find_namespace
from slurm.isolation import isolate_configuration

before = forking._parent()
if isolate_configuration(Path(sys.argv[1])):
    print(find_namespace(), find_namespace(forking._parent().pid))
"""


def start(cluster, *options, then="true", folder=""):
    command = ["srun", *options, "--mem=50", "bash", "-c", f"{SHOW}; {then}", str(folder)]
    return subprocess.Popen(command, env=cluster.environment(), stdout=subprocess.PIPE, text=True)


def read_lines(job):
    return [line.split() for line in job.communicate(timeout=HANG_S)[0].splitlines()]


def test_jobs_beside_each_other_get_different_gpus(cluster, tmp_path):
    options = {"then": MEET, "folder": tmp_path}
    jobs = [start(cluster, "--nodelist=node1", "--gres=gpu:fake:2", "--ntasks=1", **options) for _ in range(2)]
    devices = [read_lines(job)[0][2].split(",") for job in jobs]
    assert sorted(device for each in devices for device in each) == [str(i) for i in range(GPUS_PER_NODE)]


def test_a_step_over_two_nodes_has_each_rank_once_and_every_gpu_of_its_node(cluster):
    job = start(cluster, "--nodes=2", "--ntasks-per-node=2", "--gres=gpu:fake:2")
    lines = read_lines(job)
    assert sorted(rank for _, rank, _ in lines) == ["0", "1", "2", "3"]
    assert len({node for node, _, _ in lines}) == 2
    assert all(len(devices.split(",")) == 2 for _, _, devices in lines)


def test_more_gpus_than_a_node_has_are_refused(cluster):
    job = start(cluster, "--nodes=1", "--ntasks=1", f"--gres=gpu:fake:{GPUS_PER_NODE + 1}")
    assert read_lines(job) == [] and job.returncode != 0


def test_a_node_that_is_lost_is_seen_as_down_and_comes_back(cluster):
    def state():
        return cluster.run("sinfo", "--noheader", "--nodes=node3", "--format=%T").split()[0].rstrip("*")

    cluster.stop_daemon("node3")
    wait_for(lambda: state() == "down", "a lost node", cluster.folder / "slurmctld.log")
    cluster.start_node("node3")
    wait_for(lambda: state() == "idle", "its return", cluster.folder / "slurmctld.log")


def test_a_lost_node_and_an_orphaned_process_end_the_run(tmp_path, monkeypatch):
    one = Cluster(tmp_path)
    one._start("nowhere", ["sleep", "600"])
    orphan = subprocess.Popen(["sleep", "600"], env=os.environ | {"SLURMD_NODENAME": "nowhere"})
    monkeypatch.setattr(psutil.Process, "parent", lambda process: None)
    one.lose_node("nowhere")
    assert orphan.wait(timeout=HANG_S) == -signal.SIGKILL


@pytest.mark.usefixtures("cluster")
def test_clusters_that_start_at_the_same_time_have_ports_of_their_own(tmp_path, monkeypatch):
    """The ports are not among those that the kernel gives to any connection, as to one that replaces a lost node's."""
    monkeypatch.setattr("slurm.cluster.SYSTEM_CONF", tmp_path / "etc")
    found = []
    for name in ("one", "other"):
        one = Cluster(tmp_path / name)
        one._configure()
        text = (tmp_path / name / "slurm.conf").read_text()
        found += [int(port) for port in re.findall(r"(?:SlurmctldPort|\bPort)=(\d+)", text)]
    assert len(set(found)) == len(found) == 8 and set(found) <= set(PORTS)


@pytest.mark.parametrize(("ticks", "is_left"), [(0, False), (1, True)])
def test_a_process_with_the_number_of_one_that_ended_is_not_the_owner_of_a_cluster(tmp_path, ticks, is_left):
    (tmp_path / "slurm.conf").touch()
    (tmp_path / "link").symlink_to(tmp_path / "slurm.conf")
    (tmp_path / "owner").write_text(f"{os.getpid()} {read_start_ticks(os.getpid()) - ticks}")
    assert is_left_over(tmp_path / "link") == is_left


def test_snakemake_sees_the_configuration_of_its_cluster_although_others_were_called_before(tmp_path):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", SNAKEMAKE_BEFORE, str(tmp_path)]
    done = subprocess.run(command, cwd=SANDBOX, env=environment, capture_output=True, text=True, check=True)
    if not done.stdout:
        pytest.skip("the kernel does not isolate the configuration")
    own, of_snakemake = done.stdout.split()
    assert own == of_snakemake
