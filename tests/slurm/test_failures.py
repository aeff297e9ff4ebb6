"""Jobs that SLURM ends or loses, and a Snakemake that is killed: the other cells go on, a second call completes."""

import csv
import json
import os
import signal
import subprocess

import pytest

from project import study
from slurm.cluster import wait_for

WAITING = "sleeping__base__gpus2"
"""The cell in which these tests provoke something."""


@pytest.fixture
def grid(project):
    """Three cells of one backend, of which the second waits for the file go_on."""
    project.write_config(
        grid=study(frameworks=["sleeping"], devices=["fake"], num_gpus=[1, 2, 4], per_device_batch_size=[8])
    )
    project.behave(**{WAITING: "wait_for_file"})
    return project


def read_rows(project) -> dict[str, dict]:
    with open(project.folder / "results" / "tables" / "runs.tsv") as file:
        return {f"{row['framework']}{row['num_gpus']}": row for row in csv.DictReader(file, delimiter="\t")}


def find_attempts(project, cell="gpus2") -> list[dict]:
    """Records of the attempts that left any, oldest first."""
    found = sorted((project.folder / "results" / "logs" / "train").rglob("attempt.json"))
    return [json.loads(path.read_text()) for path in found if cell in str(path)]


def wait(project, condition, what, timeout_s=90.0):
    wait_for(condition, what, project.cluster.folder / "slurmctld.log", timeout_s)


def wait_for_running(project, cell="gpus2") -> dict:
    """The record of the attempt whose processes have all come."""

    def is_running():
        folders = (project.folder / "results" / "logs" / "train").rglob(f"*{cell}*/*/processes-*/process0.json")
        return any(folders) and any("job" in record for record in find_attempts(project, cell))

    wait(project, is_running, f"the run of {cell}")
    return find_attempts(project, cell)[-1]


def wait_until_alone(project, cluster) -> dict:
    """The waiting cell's job, once all others are done and Snakemake knows that they are."""
    job = wait_for_running(project)["job"]
    wait(
        project,
        lambda: cluster.run("squeue", "--noheader", "--format=%i").split() == [job["id"]],
        "the other jobs' end",
    )
    logs = project.folder / ".snakemake" / "log"

    def is_known():
        return sum(path.read_text().count("(Rule: train)") for path in logs.iterdir()) == 2

    wait(project, is_known, "Snakemake's noticing")
    return job


TABLES = ("--until", "merge_tables")
"""As far as these tests look, most of the time: figures take as long as all the rest."""


def check_others_completed(project, status, words, until=TABLES):
    """The failed cell has its status and reason in the tables, and all others are there."""
    project.snakemake("available", *until)
    rows = read_rows(project)
    assert (rows["sleeping1"]["status"], rows["sleeping4"]["status"]) == ("completed", "completed")
    assert rows["sleeping2"]["status"] == status, rows["sleeping2"]
    assert words in rows["sleeping2"]["reason"]


def check_second_call_completes(project, until=TABLES):
    project.behave()
    assert [path.split("_")[3] for path in project.planned_runs()] == ["gpus2"]
    project.snakemake(*until)
    assert {row["status"] for row in read_rows(project).values()} == {"completed"}
    assert project.planned_runs() == []


def test_a_cancelled_job(grid, cluster):
    process = grid.start()
    job = wait_for_running(grid)["job"]["id"]
    cluster.run("scancel", job)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 1, output
    check_others_completed(grid, "cancelled", f"the job was cancelled (job {job})", until=())
    cell = (grid.folder / "results" / "figures" / "grid" / "run_grid.svg").read_text()
    assert f"the job was cancelled (job {job})" in cell
    check_second_call_completes(grid, until=())
    assert grid.planned() == []


def test_the_time_limit_of_slurm(grid):
    grid.snakemake("--set-resources", "train:runtime=1", *TABLES, expect=1, timeout_s=240)
    check_others_completed(grid, "time_limit", "SLURM ended the job at its time limit of 00:01:00")
    check_second_call_completes(grid)


def test_a_run_that_is_requeued_starts_again_and_completes(grid, cluster):
    process = grid.start(*TABLES)
    job = wait_for_running(grid)["job"]["id"]
    cluster.run("scontrol", "requeue", job)
    # SLURM waits two minutes before it starts such a job again.
    wait(grid, lambda: "PENDING" in cluster.run("squeue", "--noheader", "--format=%T", "--jobs", job), "its return")
    cluster.run("scontrol", "update", f"JobId={job}", "StartTime=now")
    (grid.folder / "go_on").touch()
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output[-3000:]
    assert read_rows(grid)["sleeping2"]["status"] == "completed"
    record = next((grid.folder / "results" / "runs").rglob("*gpus2*/run.json"))
    assert json.loads(record.read_text())["job"]["restarts"] == 1


def test_a_node_that_is_lost(grid, cluster):
    grid.edit_profile(**{"slurm-no-requeue": True})
    process = grid.start(*TABLES)
    job = wait_until_alone(grid, cluster)
    cluster.lose_node(job["nodes"])
    try:
        output, _ = process.communicate(timeout=180)
        assert process.returncode == 1, output[-3000:]
        check_others_completed(grid, "node_failed", f"SLURM lost a node of the job ({job['nodes']})")
    finally:
        cluster.start_node(job["nodes"])
    wait(grid, lambda: cluster.count_idle() == 3, "the node's return")
    check_second_call_completes(grid)


def test_too_little_host_memory_is_tried_again_with_more(grid):
    grid.write_machine(memory_per_device_mb=450)
    grid.behave(**{WAITING: {"allocate_mb": 900}})
    grid.snakemake(*TABLES, expect=1, timeout_s=240)
    check_others_completed(grid, "host_out_of_memory", "memory")
    grid.edit_profile(retries=1)
    grid.snakemake(*TABLES, timeout_s=240)
    assert [record["status"] for record in find_attempts(grid)] == ["host_out_of_memory"] * 2
    assert read_rows(grid)["sleeping2"]["status"] == "completed"


def test_a_killed_snakemake_resumes_while_its_old_job_still_runs(grid, cluster):
    process = grid.start(*TABLES)
    old = wait_for_running(grid)["job"]["id"]
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert "RUNNING" in cluster.run("squeue", "--noheader", "--format=%T", "--jobs", old)
    grid.snakemake("--unlock")
    again = grid.start(*TABLES)
    wait(grid, lambda: len(find_attempts(grid)) == 2, "the second attempt")
    states = ("squeue", "--noheader", "--states=all", "--format=%T", "--jobs", old)
    wait(grid, lambda: "CANCELLED" in cluster.run(*states), "the old job's end")
    (grid.folder / "go_on").touch()
    output, _ = again.communicate(timeout=180)
    assert again.returncode == 0, output[-3000:]
    record = json.loads(next((grid.folder / "results" / "runs").rglob("*gpus2*/run.json")).read_text())
    assert (record["status"], record["job"]["id"] != old) == ("completed", True)
    assert [attempt["job"]["id"] for attempt in find_attempts(grid)] == [old]
    assert grid.planned_runs() == []


def test_ctrl_c_cancels_the_jobs(grid, cluster):
    process = grid.start(*TABLES)
    job = wait_until_alone(grid, cluster)["id"]
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=120)
    assert process.returncode != 0, output
    states = ("squeue", "--noheader", "--states=all", "--format=%T", "--jobs", job)
    wait(grid, lambda: "CANCELLED" in cluster.run(*states), "the job's end")
    check_second_call_completes(grid)


HANG = """
import os, sys, time
if "trainbench.task" in sys.orig_argv and os.environ.get("SLURM_PROCID") == "1":
    time.sleep(600)
"""


def test_a_process_that_does_not_come_ends_the_run_with_its_rank(project):
    project.write_machine(slurm={"rendezvous_timeout_s": 5})
    project.write_config(grid=study(frameworks=["pacing"], devices=["fake"], num_gpus=[1, 2]))
    hanging = project.folder / "workflow" / "lib" / "sitecustomize.py"
    hanging.write_text(HANG)
    project.snakemake(*TABLES, expect=1, timeout_s=180)
    project.snakemake("available", *TABLES)
    rows = read_rows(project)
    assert (rows["pacing1"]["status"], rows["pacing2"]["status"]) == ("completed", "no_rendezvous")
    assert "1 of 2 processes were not there after 5 s (rank 1)" in rows["pacing2"]["reason"]
    hanging.unlink()
    project.snakemake(*TABLES)
    assert read_rows(project)["pacing2"]["status"] == "completed"


def test_a_full_disk(grid):
    attempts = grid.folder / "results/logs/train/grid/sleeping/base/arrays_fp32_fake_gpus2_batch8_repeat1"
    attempts.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=44k", "tmpfs", str(attempts)], check=True)
    grid.behave()
    try:
        grid.snakemake(*TABLES, expect=1, timeout_s=180)
        check_others_completed(grid, "disk_full", "No space left on device")
    finally:
        subprocess.run(["umount", str(attempts)], check=True)
    check_second_call_completes(grid)


def test_expected_outcomes_of_jobs_are_rows_and_nothing_is_tried_again(grid):
    grid.behave(sleeping__base__gpus1="out_of_memory", sleeping__base__gpus2="diverge")
    grid.snakemake(*TABLES)
    rows = read_rows(grid)
    assert [rows[f"sleeping{count}"]["status"] for count in (1, 2, 4)] == ["out_of_memory", "diverged", "completed"]
    assert grid.planned_runs() == []
