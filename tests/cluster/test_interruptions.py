"""If jobs are preempted, or Snakemake is killed or interrupted, a second call completes the missing runs."""

import json
import os
import signal
import subprocess

import pytest

from hanging import HANG_S
from helpers.messages import says
from project import ROWS, study

WAITING = "_gpus2_"
"""Part of the path of the run that these tests disturb."""


@pytest.fixture
def grid(project):
    """Return a project with two runs, the second of which waits for the file go_on."""
    project.write_config(
        grid=study(frameworks=["sleeping"], devices=["fake"], num_gpus=[1, 2], per_device_batch_size=[8])
    )
    project.behave(sleeping__base__gpus2="wait_for_file")
    return project


def read_statuses(project) -> dict[str, str]:
    return {row["num_gpus"]: row["status"] for row in project.read_rows()}


def read_waiting_run(project) -> dict:
    return json.loads(next((project.folder / "results" / "runs").rglob(f"*{WAITING}*/run.json")).read_text())


def read_state(cluster, job) -> str:
    return cluster.run("squeue", "--noheader", "--states=all", "--format=%T", "--jobs", job).strip()


def give_nodes_to_another(grid, cluster) -> str:
    """Once the waiting run's job is alone, preempt it by a job that requests all nodes; return the preempted job."""
    job = grid.wait_for_running(WAITING)["id"]
    grid.wait_until(lambda: cluster.run("squeue", "--noheader", "--format=%i").split() == [job], "the other job's end")
    command = ["srun", "--partition=urgent", "--nodes=3", "--exclusive", "--mem=0", "sleep", "1"]
    subprocess.run(command, env=cluster.environment(), check=True, timeout=HANG_S)
    return job


def test_a_preempted_run_starts_again_and_completes(grid, cluster):
    process = grid.start(*ROWS)
    job = give_nodes_to_another(grid, cluster)
    # SLURM waits two minutes before it starts a preempted job again.
    grid.wait_until(lambda: read_state(cluster, job) == "PENDING", "the job's return to the queue")
    cluster.run("scontrol", "update", f"JobId={job}", "StartTime=now")
    (grid.folder / "go_on").touch()
    output, _ = process.communicate(timeout=HANG_S)
    assert process.returncode == 0, output[-3000:]
    assert read_statuses(grid) == {"1": "completed", "2": "completed"}
    assert read_waiting_run(grid)["job"]["restarts"] == 1


def test_a_preempted_run_that_slurm_does_not_start_again_has_failed(grid, cluster):
    grid.edit_profile(**{"slurm-no-requeue": True})
    process = grid.start(*ROWS)
    give_nodes_to_another(grid, cluster)
    output, _ = process.communicate(timeout=HANG_S)
    assert process.returncode == 1, output[-3000:]
    grid.snakemake("available", *ROWS)
    assert read_statuses(grid) == {"1": "completed", "2": "preempted"}
    check_second_call_completes(grid)


@pytest.fixture
def grace(cluster):
    """Give preempted jobs half a minute to end."""
    cluster.run("scontrol", "update", "PartitionName=gpu", "GraceTime=30")
    yield
    cluster.run("scontrol", "update", "PartitionName=gpu", "GraceTime=0")


@pytest.mark.usefixtures("grace")
def test_a_run_that_fails_in_the_grace_time_of_a_preemption_is_preempted_and_done_again(grid, cluster):
    """The profile has no retries."""
    process = grid.start(*ROWS)
    job = give_nodes_to_another(grid, cluster)
    (grid.folder / "go_on").touch()
    output, _ = process.communicate(timeout=HANG_S)
    assert process.returncode == 0, output[-3000:]
    assert read_statuses(grid) == {"1": "completed", "2": "completed"}
    ended = [(attempt["job"]["id"], attempt["status"]) for attempt in grid.find_attempts(WAITING)]
    assert ended == [(job, "preempted")] and read_state(cluster, job) == "FAILED"


def check_second_call_completes(project):
    project.behave()
    assert ["_gpus2_" in path for path in project.planned_runs()] == [True]
    project.snakemake(*ROWS)
    assert read_statuses(project) == {"1": "completed", "2": "completed"}
    assert project.planned_runs() == []


def test_the_job_of_a_killed_snakemake_is_taken_over(grid, cluster):
    process = grid.start(*ROWS)
    old = grid.wait_for_running(WAITING)["id"]
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert read_state(cluster, old) == "RUNNING"
    grid.snakemake("--unlock")
    again = grid.start(*ROWS)
    name = ["squeue", "--noheader", "--format=%j", "--jobs", old]
    before = cluster.run(*name)
    grid.wait_until(lambda: cluster.run(*name) != before, "the job's new name")
    (grid.folder / "go_on").touch()
    output, _ = again.communicate(timeout=HANG_S)
    assert again.returncode == 0 and f"job {old} of an earlier call is doing this" in output, output[-3000:]
    record = read_waiting_run(grid)
    assert (record["status"], record["job"]["id"]) == ("completed", old)
    assert grid.find_attempts(WAITING) == [] and grid.planned_runs() == []


def test_the_job_of_a_killed_call_of_another_user_is_neither_done_twice_nor_taken_over(grid, cluster):
    """Two users share the folder."""
    process = grid.start(*ROWS)
    own = grid.wait_for_running(WAITING)["id"]
    name = cluster.run("squeue", "--noheader", "--format=%j", "--jobs", own).strip()
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    cluster.run("scancel", own)
    options = ("--parsable", "--uid=nobody", "--partition=gpu", "--hold", "--chdir=/", f"--job-name={name}")
    other = cluster.run("sbatch", *options, "--output=/dev/null", "--wrap=true").strip()
    grid.snakemake("--unlock")
    output = grid.snakemake(*ROWS, expect=1)
    assert says(output, "a call of nobody in this folder was killed", f"squeue --jobs={other}", f"scancel {other}")
    assert "To do:" not in output, "nothing has started"
    cluster.run("scancel", other)
    check_second_call_completes(grid)


def test_an_attempt_of_a_killed_snakemake_with_other_settings_is_replaced(grid, cluster):
    process = grid.start(*ROWS)
    old = grid.wait_for_running(WAITING)["id"]
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    grid.snakemake("--unlock")
    options = {"num_gpus": [1, 2], "per_device_batch_size": [8], "steps": 26}
    grid.write_config(grid=study(frameworks=["sleeping"], devices=["fake"], **options))
    again = grid.start(*ROWS)
    grid.wait_until(lambda: len(grid.find_attempts(WAITING)) == 2, "the second attempt")
    grid.wait_until(lambda: read_state(cluster, old) == "CANCELLED", "the old job's end")
    (grid.folder / "go_on").touch()
    output, _ = again.communicate(timeout=HANG_S)
    assert again.returncode == 0, output[-3000:]
    record = read_waiting_run(grid)
    ended = [(attempt["job"]["id"], attempt["status"], attempt["reason"]) for attempt in grid.find_attempts(WAITING)]
    assert ended == [(old, "cancelled", f"replaced by job {record['job']['id']}")]


def press_ctrl_c(process) -> str:
    """Press Ctrl-C once and return what is printed. If Snakemake does not end, fail with a traceback of each thread."""
    process.send_signal(signal.SIGINT)
    try:
        return process.communicate(timeout=HANG_S)[0]
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGABRT)
        raise AssertionError(process.communicate()[0][-10_000:]) from None


def test_ctrl_c_cancels_the_jobs(grid, cluster):
    process = grid.start(*ROWS)
    job = grid.wait_for_running(WAITING)["id"]
    logs = grid.folder / ".snakemake" / "log"

    def others_have_ended():
        return sum(path.read_text().count("(Rule: train)") for path in logs.iterdir()) == 1

    grid.wait_until(others_have_ended, "Snakemake's noticing the other job's end")
    # At this moment the plugin is asking for the jobs' states, and its list of jobs to cancel is empty.
    output = press_ctrl_c(process)
    assert process.returncode != 0, output
    assert "The call was interrupted by Ctrl-C; its jobs were cancelled." in output, output
    assert "Some steps failed" not in output and "Traceback" not in output, output
    grid.wait_until(lambda: read_state(cluster, job) == "CANCELLED", "the job's end")
    check_second_call_completes(grid)


@pytest.mark.usefixtures("grace")
def test_a_gate_that_is_preempted_has_not_crashed_in_the_bill_and_is_done_again(project, cluster, environment_record):
    """The profile has no retries. The gate's process sees that its task was killed, and tries it once more."""
    project.take_environment(environment_record("pytorch-cpu"))
    options = {"frameworks": ["sleeping"], "devices": ["fake"], "num_gpus": [1], "per_device_batch_size": [8]}
    project.write_config(grid=study(**options, parity="report"))
    project.behave(parity__sleeping="wait_for_file")
    process = project.start(*ROWS)

    def read_gates() -> list[dict]:
        paths = sorted((project.folder / "results" / "jobs" / "gate").rglob("*.json"))
        return [json.loads(path.read_text()) for path in paths]

    def is_alone() -> bool:
        running = cluster.run("squeue", "--noheader", "--format=%i").split()
        gates = [each for each in read_gates() if each["kind"] == "gate" and each["job"]["id"] in running]
        return len(running) == len(gates) == 1 and any(project.folder.rglob("processes-*/process0.json"))

    project.wait_until(is_alone, "the gate's job alone")
    command = ["srun", "--partition=urgent", "--nodes=3", "--exclusive", "--mem=0", "sleep", "1"]
    subprocess.run(command, env=cluster.environment(), check=True, timeout=HANG_S)
    (project.folder / "go_on").touch()
    output, _ = process.communicate(timeout=HANG_S)
    assert process.returncode == 0, output[-3000:]
    *before, last = [gate["status"] for gate in read_gates()]
    assert last == "completed" and before and set(before) <= {"interrupted", "preempted"}, read_gates()
