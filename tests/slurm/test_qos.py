"""Limits of a QOS are known before the first job, and those of an account that are not are told once a job waits."""

import re

import pytest

from howmanygpus.plan.cluster.limits import Limit
from howmanygpus.plan.cluster.offer import ask_for_offer
from project import ROWS, study
from slurm.cluster import GPUS_PER_NODE

CHANGE = ("sacctmgr", "--immediate")
LIMITED = ("MaxWall=00:45:00", "MaxTRES=gres/gpu=2,mem=3000M", "MaxTRESPerUser=gres/gpu=3")


@pytest.fixture(scope="module")
def cluster(run_cluster):
    with run_cluster(accounting=True) as started:
        started.run(*CHANGE, "add", "qos", "short", *LIMITED)
        started.run(*CHANGE, "add", "qos", "long", "MaxWall=2-00:00:00", "Flags=PartitionTimeLimit")
        started.run(*CHANGE, "modify", "user", "root", "set", "qos+=short,long")
        yield started


def write_study(project, **changes):
    changes = {"num_gpus": [1], "per_device_batch_size": [8], **changes}
    project.write_config(grid=study(frameworks=["sleeping"], devices=["fake"], **changes))


def test_slurm_says_what_a_qos_allows(cluster, monkeypatch):
    for name, value in cluster.environment().items():
        monkeypatch.setenv(name, value)
    options = {"partition": "gpu", "request": "gpu:fake:{n}", "constraint": None}
    offer = ask_for_offer(options | {"qos": "short"})
    assert (offer.longest_job_min, offer.longest_is_of) == (45, "MaxWall of the QOS short")
    assert offer.limits.find("gres/gpu", 1) == Limit(2, "MaxTRES of the QOS short")
    assert offer.most_memory_mb(1) == 3000 and offer.most_memory_mb(2) == 1500
    assert ask_for_offer(options | {"qos": "long"}).longest_job_min == 2880, "longer than the partition allows"
    usual = ask_for_offer(options | {"qos": None})
    assert (usual.longest_job_min, usual.longest_is_of) == (1440, "partition gpu") and usual.limits.is_known


def test_of_two_accounts_that_of_the_job_counts(cluster, monkeypatch):
    """slurmdbd gives the user root the account root, which stays the default, and the cluster's has another."""
    for name, value in cluster.environment().items():
        monkeypatch.setenv(name, value)
    options = {"partition": "gpu", "request": "gpu:fake:{n}", "constraint": None, "qos": None}
    one = ("modify", "user", "where", "name=root", "account=tests", "set")
    cluster.run(*CHANGE, *one, "MaxTRES=gres/gpu=1")
    try:
        assert ask_for_offer(options).limits.find("gres/gpu", 1) is None
        found = ask_for_offer(options, "tests").limits.find("gres/gpu", 1)
        assert found == Limit(1, "MaxTRES of your account tests")
    finally:
        cluster.run(*CHANGE, *one, "MaxTRES=gres/gpu=-1")


def test_what_a_qos_never_starts_is_refused_before_the_first_job(project, cluster):
    project.write_machine(qos="short")
    write_study(project, time_limit_min=60, num_gpus=[1, GPUS_PER_NODE])
    said = " ".join(project.snakemake(*ROWS, expect=1).split())
    assert "4 devices ask for gres/gpu=4, and MaxTRES of the QOS short allows a job 2, so that it would" in said
    assert "exceed the 45 minutes that MaxWall of the QOS short allows a job; lower it to 40" in said
    assert cluster.run("squeue", "--noheader", "--format=%i") == ""
    project.write_machine(qos="short", devices_per_node=1, memory_per_device_mb=1000)
    write_study(project, time_limit_min=20)
    project.snakemake(*ROWS)
    assert [row["status"] for row in project.read_rows()] == ["completed"]


def test_a_limit_of_an_account_that_a_job_exceeds_is_named_while_it_waits(project, cluster):
    """What a job may have by its size and its time limit together is not compared before."""
    cluster.run(*CHANGE, "modify", "user", "root", "set", "MaxTRESMins=cpu=1")
    try:
        write_study(project)
        process = project.start(*ROWS)
        logs = project.folder / ".snakemake" / "log"
        project.wait_until(lambda: any("cannot start" in p.read_text() for p in logs.glob("*.log")), "the message")
        process.terminate()
        output, _ = process.communicate(timeout=300)
    finally:
        cluster.run(*CHANGE, "modify", "user", "root", "set", "MaxTRESMins=cpu=-1")
    (said,) = re.findall(r"SLURM cannot start job \d+ .*", output)
    assert "AssocMaxCpuMinutesPerJobLimit: the job asks for more, or less, than the account or QOS allows" in said


def test_more_jobs_than_the_account_may_submit_are_submitted_as_others_end(project, cluster):
    write_study(project, repeats=4)
    cluster.run(*CHANGE, "modify", "user", "root", "set", "MaxSubmitJobs=2")
    try:
        output = project.snakemake("--until", "train")
    finally:
        cluster.run(*CHANGE, "modify", "user", "root", "set", "MaxSubmitJobs=-1")
    assert [record["status"] for record in project.read_records().values()] == ["completed"] * 4
    assert "not submitted yet, sbatch is tried again" in output and "MaxSubmitJob" in output
    assert project.find_attempts("grid/") == [], "no run was refused"
