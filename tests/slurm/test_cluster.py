"""The test cluster allocates pretend GPUs, runs steps over several nodes, and can lose nodes."""

import subprocess

from slurm.cluster import GPUS_PER_NODE, wait_for

SHOW = 'echo "$SLURMD_NODENAME $SLURM_PROCID $CUDA_VISIBLE_DEVICES"; sleep {seconds}'


def start(cluster, *options, seconds=0):
    command = ["srun", *options, "--mem=50", "bash", "-c", SHOW.format(seconds=seconds)]
    return subprocess.Popen(command, env=cluster.environment(), stdout=subprocess.PIPE, text=True)


def read_lines(job):
    return [line.split() for line in job.communicate(timeout=60)[0].splitlines()]


def test_jobs_beside_each_other_get_different_gpus(cluster):
    node = "--nodelist=node1"
    jobs = [start(cluster, node, "--gres=gpu:fake:2", "--ntasks=1", seconds=2) for _ in range(2)]
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
    wait_for(lambda: state() == "down", "a lost node", cluster.folder / "slurmctld.log", timeout_s=60)
    cluster.start_node("node3")
    wait_for(lambda: state() == "idle", "its return", cluster.folder / "slurmctld.log", timeout_s=60)
