"""Limits of a QOS or an account are told once a job waits for them, and jobs beyond them are submitted later."""

import re

import pytest
import yaml

from hanging import HANG_S
from project import ROWS, study

CHANGE = ("sacctmgr", "--immediate")


@pytest.fixture(scope="module")
def cluster(run_cluster):
    with run_cluster(accounting=True) as started:
        started.run(*CHANGE, "add", "qos", "short", "MaxTRES=gres/gpu=2")
        started.run(*CHANGE, "modify", "user", "root", "set", "qos+=short")
        yield started


def write_study(project, **changes):
    changes = {"num_gpus": [1], "per_device_batch_size": [8], **changes}
    project.write_config(grid=study(frameworks=["sleeping"], devices=["fake"], **changes))


def find_obstacle(project) -> str:
    """Return what a call says about the job that cannot start."""
    process = project.start(*ROWS)
    logs = project.folder / ".snakemake" / "log"
    project.wait_until(lambda: any("cannot start" in p.read_text() for p in logs.glob("*.log")), "the message")
    process.terminate()
    output, _ = process.communicate(timeout=HANG_S)
    (said,) = re.findall(r"SLURM cannot start job \d+ .*", output)
    return said


def test_a_limit_of_an_account_that_a_job_exceeds_is_named_while_it_waits(project, cluster):
    cluster.run(*CHANGE, "modify", "user", "root", "set", "MaxTRESMins=cpu=1")
    try:
        write_study(project)
        said = find_obstacle(project)
    finally:
        cluster.run(*CHANGE, "modify", "user", "root", "set", "MaxTRESMins=cpu=-1")
    assert "AssocMaxCpuMinutesPerJobLimit: the job asks for more, or less, than the account or QOS allows" in said


def test_a_limit_of_a_qos_that_the_first_job_exceeds_is_named_while_it_waits(project):
    """The probe asks for a whole node, which has four devices."""
    project.write_machine(qos="short")
    write_study(project)
    assert "QOSMaxGRESPerJob: the job asks for more, or less, than the account or QOS allows" in find_obstacle(project)


def test_the_account_of_the_profile_is_checked_in_the_dry_run_and_charged_by_batch_scripts(project, cluster):
    write_study(project)
    profile = yaml.safe_load((project.folder / "profiles" / "slurm" / "config.yaml").read_text())
    project.edit_profile(**{"default-resources": profile["default-resources"] | {"slurm_account": "tests"}})
    cluster.run("scontrol", "update", "PartitionName=gpu", "AllowAccounts=other")
    try:
        output = project.snakemake("batch_scripts", "--dry-run", "--printshellcmds")
    finally:
        cluster.run("scontrol", "update", "PartitionName=gpu", "AllowAccounts=ALL")
    assert "devices.fake.partition: gpu is only for the accounts other, and jobs have tests" in output, output
    assert '"slurm_account": "tests"' in output
    assert "is only for" not in project.snakemake("--dry-run")


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


def test_the_account_of_the_shell_is_charged(project, cluster, monkeypatch):
    """It is not the default of the user, and the profile names none."""
    cluster.run(*CHANGE, "add", "account", "other")
    cluster.run(*CHANGE, "add", "user", "root", "account=other")
    write_study(project)
    monkeypatch.setenv("SBATCH_ACCOUNT", "other")
    project.snakemake("--until", "train")
    (record,) = project.read_records().values()
    command = ("sacct", "--allocations", "--noheader", "--parsable2", "--format=Account", "--jobs", record["job"]["id"])
    assert cluster.run(*command).strip() == "other"
