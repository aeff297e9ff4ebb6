"""A run that is tried again requests more of what it lacked, up to what the partition and its nodes have."""

import sys

import pytest

from hanging import HANG_S
from howmanygpus.paths import JOB_LOGS
from howmanygpus.site.retrying import STARTED, Growth, compute_growth_of_job
from howmanygpus.site.slurm import SlurmError, find_job, parse_fields, submit
from project import ROWS, RUNS, study
from slurm.cluster import CORES_PER_NODE, GPUS_PER_NODE, MEMORY_PER_NODE_MB

LIMIT_MIN, OVERHEAD_MIN, PARTITION_MIN = 40, 5, 60


@pytest.fixture
def short_partition(cluster):
    """Let the partition's longest job be so short that twice the time of a run is more."""
    cluster.run("scontrol", "update", "PartitionName=gpu", f"MaxTime={PARTITION_MIN}")
    yield
    cluster.run("scontrol", "update", "PartitionName=gpu", "MaxTime=1440")


def find_request(cluster, attempt) -> tuple[str, str]:
    """Return the time limit and the memory of an attempt's job."""
    job = parse_fields(cluster.run("scontrol", "--oneliner", "show", "job", attempt["job"]["id"]))
    return job["TimeLimit"], job["MinMemoryNode"]


@pytest.mark.usefixtures("short_partition")
def test_each_run_is_retried_with_more_of_the_exhausted_resource(project, cluster):
    names = ("limited", "cancelled", "starving")
    for name in names:
        project.add_fake(name)
    project.write_machine(memory_per_device_mb=MEMORY_PER_NODE_MB // GPUS_PER_NODE)
    options = {"devices": ["fake"], "per_device_batch_size": [8], "time_limit_min": LIMIT_MIN}
    project.write_config(
        one=study(frameworks=list(names), num_gpus=[1], **options),
        whole=study(frameworks=["starving"], num_gpus=[GPUS_PER_NODE], **options),
    )
    project.behave(limited="wait_for_file", cancelled="wait_for_file", starving="host_out_of_memory")
    # Nobody reads the pipe while this test waits, so that long logs would fill it and block Snakemake.
    project.edit_profile(**{"retries": 1, "show-failed-logs": False})
    process = project.start(*RUNS)
    jobs = {name: project.wait_for_running(f"/{name}/") for name in ("limited", "cancelled")}
    cluster.run("scancel", jobs["cancelled"]["id"])
    for limit in ("TimeLimit=1", "EndTime=now+1"):
        cluster.run("scontrol", "update", f"JobId={jobs['limited']['id']}", limit)
    cells = ("one/limited", "one/cancelled", "one/starving", "whole/starving")
    project.wait_until(lambda: all(len(project.find_attempts(cell)) == 2 for cell in cells), "all second attempts")
    requests = {cell: find_request(cluster, project.find_attempts(cell)[1]) for cell in cells}
    (project.folder / "go_on").touch()
    output, _ = process.communicate(timeout=HANG_S)
    least = f"00:{LIMIT_MIN + OVERHEAD_MIN}:00"
    assert requests == {
        "one/limited": ("01:00:00", "4000M"),
        "one/cancelled": (least, "4000M"),
        "one/starving": (least, "8000M"),
        "whole/starving": (least, f"{MEMORY_PER_NODE_MB}M"),
    }, output[-3000:]


def test_a_run_whose_node_was_lost_requests_no_more_than_before(project, cluster):
    project.add_fake("lost")
    options = {"devices": ["fake"], "per_device_batch_size": [8], "time_limit_min": LIMIT_MIN}
    project.write_config(whole=study(frameworks=["lost"], num_gpus=[GPUS_PER_NODE], **options))
    project.behave(lost="wait_for_file")
    project.edit_profile(**{"retries": 1, "show-failed-logs": False, "slurm-no-requeue": True})
    process = project.start(*RUNS)
    node = project.wait_for_running("/lost/")["nodes"]
    cluster.lose_node(node)
    project.wait_until(lambda: len(project.find_attempts("/lost/")) == 2, "the second attempt")
    first, second = project.find_attempts("/lost/")
    requests = [find_request(cluster, attempt) for attempt in (first, second)]
    (project.folder / "go_on").touch()
    output, _ = process.communicate(timeout=HANG_S)
    cluster.start_node(node)
    project.wait_until(lambda: cluster.count_idle() == len(cluster.nodes), "the node's return")
    assert first["status"] == "node_failed" and process.returncode == 0, output[-3000:]
    assert requests == [(f"00:{LIMIT_MIN + OVERHEAD_MIN}:00", f"{2000 * GPUS_PER_NODE}M")] * 2


@pytest.mark.parametrize(("end", "minutes"), [("cancelled", 15), ("limited", 25)])
def test_a_measurement_is_retried_with_more_of_the_lacking_resource(project, cluster, environment_record, end, minutes):
    project.take_environment(environment_record("pytorch-cpu"))
    project.write_machine(slurm={"preflight": True})
    options = {"frameworks": ["sleeping"], "devices": ["fake"], "num_gpus": [2], "per_device_batch_size": [8]}
    project.write_config(grid=study(**options))
    project.edit_profile(retries=1)
    process = project.start("results/probe/fake_gpus2.json")

    def find_jobs(states):
        printed = cluster.run("squeue", "--noheader", f"--states={states}", "--format=%i %l %m %k")
        lines = [line.split() for line in printed.splitlines()]
        jobs = [line[:3] for line in lines if "measure_allreduce" in line[-1]]
        return sorted(jobs, key=lambda job: int(job[0]))

    project.wait_until(lambda: find_jobs("RUNNING"), "the measurement")
    ((job, *first),) = find_jobs("RUNNING")
    # A job whose limit passes before its first step counts as failed.
    steps = ("squeue", "--noheader", "--steps", f"--jobs={job}", "--format=%i")
    project.wait_until(lambda: f"{job}.0" in cluster.run(*steps).split(), "its first step")
    if end == "cancelled":
        cluster.run("scancel", job)
    else:
        for limit in ("TimeLimit=1", "EndTime=now+1"):
            cluster.run("scontrol", "update", f"JobId={job}", limit)
    output, _ = process.communicate(timeout=HANG_S)
    assert process.returncode == 0, output[-3000:]
    last, *second = find_jobs("all")[-1]
    assert int(last) > int(job), "it was tried again"
    assert (first, second) == (["15:00", "4000M"], [f"{minutes}:00", "4000M"])


def test_a_job_that_slurm_ends_as_failed_for_its_memory_requests_more_of_it(project, cluster, monkeypatch):
    """The cluster has OverMemoryKill. The batch script takes too much, so that nothing is left to say so."""
    logs = project.folder / JOB_LOGS / "rule_observe_parity" / "torch-1"
    logs.mkdir(parents=True)
    monkeypatch.chdir(project.folder)
    for name, value in cluster.environment().items() | {STARTED: "20260101T000000"}.items():
        monkeypatch.setenv(name, value)
    options = ["--parsable", "--mem=100", f"--output={logs}/%j.log", "--wait"]
    with pytest.raises(SlurmError):
        submit(options, f"#!/bin/sh\nexec {sys.executable} -c 'import time; x = bytearray(2**28); time.sleep(60)'\n")
    (log,) = logs.glob("*.log")
    assert find_job(log.stem).state == "FAILED"
    assert compute_growth_of_job("observe_parity", ["torch-1"], 2) == Growth(memory=2), log.read_text()


def test_a_machine_file_that_does_not_fit_the_nodes_is_refused_before_the_first_job(project, cluster):
    project.write_machine(cores_per_device=CORES_PER_NODE)
    project.write_config(grid=study(frameworks=["sleeping"], devices=["fake"], per_device_batch_size=[8]))
    message = f"devices.fake.cores_per_device: {CORES_PER_NODE} for each of {GPUS_PER_NODE} devices is 32 cores"
    assert message in project.snakemake("--dry-run")
    output = project.snakemake(expect=1)
    assert message in output and "a node of partition gpu has 8; lower it to 2" in output
    assert "To do:" not in output, "nothing has started"


def test_a_node_on_which_runs_would_fail_stops_the_grid(project):
    project.write_machine(slurm={"scratch": "/proc/no/such/folder"})
    project.write_config(grid=study(frameworks=["sleeping"], devices=["fake"], per_device_batch_size=[8]))
    output = project.snakemake(*ROWS, expect=1)
    assert "fake: error: scratch: /proc/no/such/folder cannot be written to; name another folder, or null" in output
    assert "correct the machine file or the study" in output
    attempts = project.find_attempts("grid/")
    assert {attempt["status"] for attempt in attempts} == {"blocked"}, "no run has started"
    project.write_machine()
    project.snakemake(*ROWS)
    assert {row["status"] for row in project.read_rows()} == {"completed"}


TAKE = "import time\ntaken = bytearray(2**29)\ntime.sleep(10)\ndel taken\n"
"""SLURM counts the memory of a process twice while its child begins, so that it is kept for no longer than needed."""


@pytest.mark.parametrize("logs", ["results/logs/slurm", "logs of jobs"])
def test_a_run_whose_job_dies_of_its_memory_before_it_begins_requests_more_of_it(project, logs):
    """Only the log of the job says why, wherever the profile keeps it."""
    project.write_machine(memory_per_device_mb=400, cores_per_device=1)
    project.edit_profile(**{"slurm-logdir": logs, "retries": 1})
    project.write_config(grid=study(frameworks=["sleeping"], devices=["fake"], num_gpus=[1], per_device_batch_size=[8]))
    script = project.folder / "workflow" / "scripts" / "train.py"
    script.write_text(f"{TAKE}{script.read_text()}")
    project.snakemake(*ROWS)
    (attempt,), (record,) = project.find_attempts("grid/"), project.read_records().values()
    assert (attempt["status"], record["status"]) == ("host_out_of_memory", "completed")
    assert "exceeded memory limit" in attempt["reason"]
    memory = project.cluster.run("squeue", "--noheader", "--states=all", "--format=%m", "--jobs", record["job"]["id"])
    assert memory.strip() == "800M"
