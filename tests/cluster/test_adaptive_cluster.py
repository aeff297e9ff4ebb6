"""Adaptive studies decide by jobs of a cluster, go on where a killed call has ended, and fit into one packed job."""

import json
import subprocess

import pytest

from forking import STARTED_BY_USERS, listen_to_ctrl_c
from howmanygpus.report.files import read_table
from project import RUNS, study

ANSWERS = ("--until", "merge_answers")
STEP_S, SLOW_S = 0.1, 0.6
"""Seconds of a step with 64 images per device. Slow ones on two devices have an efficiency of 0.17."""


def adaptive(**rules) -> dict:
    return study(frameworks=["pacing"], devices=["fake"], num_gpus="auto", steps=12, **rules)


def behave(project, on_two) -> None:
    """Set the behaviour of runs on two devices; all others take STEP_S for a step."""
    project.behave(pacing__base__gpus2_=on_two, pacing__base={"step_s": STEP_S})


def read_statuses(project) -> dict[str, tuple[str, str]]:
    """Return status and reason of each run, by study and device count."""
    return {f"{row['study']} {row['num_gpus']}": (row["status"], row["reason"]) for row in project.read_rows()}


def list_jobs(project) -> list[dict]:
    """Return the records of all jobs of runs, which are one for each attempt."""
    return [json.loads(path.read_text()) for path in (project.folder / "results" / "jobs" / "run").rglob("*.json")]


@pytest.fixture
def adaptive_project(project):
    project.leave_figures_blank()
    return project


def test_an_adaptive_study_on_a_cluster_goes_on_after_a_kill(adaptive_project, cluster):
    project = adaptive_project
    rules = {"stop_below_efficiency": 0.5, "budget_device_h": 1.0, "train_best": 1, "probe_steps": 8}
    project.write_config(small=adaptive(**rules))
    behave(project, "hang")
    command = [*STARTED_BY_USERS, "--profile", project.profile, *RUNS]
    options = {"cwd": project.folder, "env": project.environment(), "preexec_fn": listen_to_ctrl_c}
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options) as call:
        hanging = project.wait_for_running("gpus2_")["id"]
        call.kill()
    assert [path for path in project.planned_runs() if "gpus1_" in path] == [], "what completed stays"

    behave(project, {"step_s": SLOW_S})
    project.snakemake("--unlock")
    project.snakemake(*ANSWERS)
    found = read_statuses(project)
    done = {name for name, (status, _) in found.items() if status == "completed"}
    assert done == {"small_probe 1", "small_probe 2", "small 1"}
    status, reason = found["small_probe 4"]
    assert status == "not_run" and reason.startswith("efficiency 0.") and reason.endswith(" at 2 devices is below 0.5")
    left = [found[name] for name in ("small_probe 8", "small 2", "small 4", "small 8")]
    assert left == [(status, reason)] * 4, "each says why it was not run"
    assert "RUNNING" not in cluster.run("squeue", "--noheader", "--states=all", "--format=%T", "--jobs", hanging)
    assert project.planned_runs() == []
    used = sum(read_table(path)["device_hours"].sum() for path in project.folder.glob("results/tables/*/jobs.tsv"))
    assert len(list_jobs(project)) == 4 and 0 < used < 1.0, "three runs, one of them twice"


def test_a_packed_job_decides_by_its_own_runs(adaptive_project):
    project = adaptive_project
    project.write_config(small=adaptive(stop_below_efficiency=0.2))
    behave(project, {"step_s": STEP_S})
    project.submit_packed(*RUNS)
    printed = "".join(path.read_text() for path in project.folder.glob("howmanygpus-packed-*.log"))
    jobs = list_jobs(project)
    assert len(jobs) == 3 and len({job["job"]["id"] for job in jobs}) == 1, printed[-3000:]
    assert [path.split("_")[3] for path in project.planned_runs()] == ["gpus8"], "only this run is over two nodes"
