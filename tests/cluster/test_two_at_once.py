"""Two calls at once, in one folder or in a folder and its copy, never cancel each other's jobs."""

import shutil
import subprocess

import pytest

from hanging import HANG_S
from project import ROWS, study
from slurm.project import ClusterProject

STUDY = study(frameworks=["sleeping"], devices=["fake"], num_gpus=[2], per_device_batch_size=[8])


def prepare(project) -> None:
    project.write_config(grid=STUDY)
    project.behave(sleeping__="wait_for_file")


@pytest.fixture
def first(project):
    """Return a project whose only run waits for the file go_on, the run's job, and the call that submitted it."""
    prepare(project)
    process = project.start(*ROWS)
    return project, project.wait_for_running("sleeping")["id"], process


def read_state(cluster, job) -> str:
    return cluster.run("squeue", "--noheader", "--states=all", "--format=%T", "--jobs", job).strip()


def finish(project, process) -> None:
    (project.folder / "go_on").touch()
    output, _ = process.communicate(timeout=HANG_S)
    assert process.returncode == 0, output[-3000:]
    assert [row["status"] for row in project.read_rows()] == ["completed"]


def test_a_call_that_is_alive_is_not_unlocked_and_keeps_its_jobs(first, cluster):
    project, job, process = first
    refused = project.snakemake("--unlock", expect=1)
    assert f"still runs: process {process.pid} on " in refused and "press Ctrl-C in its terminal" in refused
    # A second call that gets past the lock in another way fails and leaves the job alone.
    shutil.rmtree(project.folder / ".snakemake" / "locks")
    output = project.snakemake(*ROWS, expect=1)
    words = f"job {job} is doing this run, for another call of Snakemake: process {process.pid} on "
    assert words in output and read_state(cluster, job) == "RUNNING"
    finish(project, process)
    assert project.find_attempts("sleeping") == [] and project.planned_runs() == []


@pytest.fixture
def clone(cluster, tmp_path):
    clone = ClusterProject(tmp_path / "clone", cluster)
    clone.add_fake("sleeping")
    clone.add_fake("pacing", launcher="per_device")
    prepare(clone)
    shutil.rmtree(clone.folder / "results")
    yield clone
    clone.kill_processes()


def test_results_are_not_adopted_while_a_call_or_its_jobs_go_on(first, clone, cluster):
    project, job, process = first

    def adopt():
        return subprocess.run(
            ["make", "adopt", f"FROM={project.folder}"],
            **{"cwd": clone.folder, "env": clone.environment(), "capture_output": True, "text": True},
        )

    refused = adopt()
    assert refused.returncode and f"in use by a call of Snakemake: process {process.pid} on " in refused.stderr
    process.kill()
    process.communicate()
    refused = adopt()
    assert refused.returncode and f"has jobs that have not ended: job {job}. Wait" in refused.stderr
    assert not (clone.folder / "results").exists()
    cluster.run("scancel", job)
    project.wait_until(lambda: read_state(cluster, job) == "CANCELLED", "the job's end")
    assert adopt().returncode == 0
    assert [path.endswith("repeat1") for path in clone.planned_runs()] == [True]


def test_a_copy_of_a_folder_with_a_running_job_leaves_this_job_alone(first, clone, cluster):
    project, job, process = first
    shutil.copytree(project.folder / "results", clone.folder / "results")
    shutil.copytree(project.folder / ".snakemake", clone.folder / ".snakemake", dirs_exist_ok=True)
    clone.snakemake("--unlock")
    again = clone.start(*ROWS)
    clone.wait_until(lambda: len(clone.find_attempts("sleeping")) == 2, "the copy's attempt")
    clone.wait_for_running("sleeping")
    finish(clone, again)
    assert read_state(cluster, job) == "RUNNING"
    (copied,) = clone.find_attempts("sleeping")
    assert copied["reason"] == f"job {job} was doing it in {project.folder}, from where its records were copied"
    finish(project, process)
