"""Jobs that SLURM ends or loses, and a Snakemake that is killed: the other cells go on, a second call completes."""

import csv
import json

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


def wait_for_running(project, cell="gpus2") -> dict:
    """The record of the attempt whose processes have all come."""

    def is_running():
        folders = (project.folder / "results" / "logs" / "train").rglob(f"*{cell}*/*/processes-*/process0.json")
        return any(folders) and any("job" in record for record in find_attempts(project, cell))

    wait_for(is_running, f"the run of {cell}", project.folder / "results" / "logs", timeout_s=90)
    return find_attempts(project, cell)[-1]


def check_others_completed(project, status, words):
    """The failed cell has its status and reason in the tables, and all others are there."""
    project.snakemake("available")
    rows = read_rows(project)
    assert (rows["sleeping1"]["status"], rows["sleeping4"]["status"]) == ("completed", "completed")
    assert rows["sleeping2"]["status"] == status, rows["sleeping2"]
    assert words in rows["sleeping2"]["reason"]
    assert (project.folder / "results" / "figures" / "grid" / "run_grid.svg").exists()


def check_second_call_completes(project):
    project.behave()
    assert [path.split("_")[3] for path in project.planned_runs()] == ["gpus2"]
    project.snakemake()
    assert {row["status"] for row in read_rows(project).values()} == {"completed"}
    assert project.planned() == []


def test_a_cancelled_job(grid, cluster):
    process = grid.start()
    job = wait_for_running(grid)["job"]["id"]
    cluster.run("scancel", job)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 1, output
    check_others_completed(grid, "cancelled", f"the job was cancelled (job {job})")
    check_second_call_completes(grid)


def test_the_time_limit_of_slurm(grid):
    grid.snakemake("--set-resources", "train:runtime=1", expect=1, timeout_s=240)
    check_others_completed(grid, "time_limit", "SLURM ended the job at its time limit of 00:01:00")
    check_second_call_completes(grid)


def test_a_run_that_is_requeued_starts_again_and_completes(grid, cluster):
    process = grid.start()
    job = wait_for_running(grid)["job"]["id"]
    cluster.run("scontrol", "requeue", job)
    (grid.folder / "go_on").touch()
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output[-3000:]
    assert read_rows(grid)["sleeping2"]["status"] == "completed"
    record = next((grid.folder / "results" / "runs").rglob("*gpus2*/run.json"))
    assert json.loads(record.read_text())["job"]["restarts"] == 1
