"""An adaptive study measures as far as it is worth it, trains the best, and says why it did not run the rest."""

import os
import signal
import subprocess
import time

import pytest

from forking import STARTED_BY_USERS, listen_to_ctrl_c
from hanging import HANG_S
from howmanygpus.invocation.dry_run.summary import NOTHING
from project import ROWS, RUNS, Project, study

ANSWERS = ("--until", "merge_answers")
SHARED_CORES = """

def assign_devices(spec, bind_cores=True):
    cores = list_cores()
    return DeviceAssignment([[cores[device % len(cores)]] for device in range(spec.devices_per_node)], [])
"""
"""Code appended to measure/host/devices.py of a copy: devices share the cores that there are."""
EIGHT_CORES = "\n\ndef count_cores() -> int:\n    return 8\n"
"""Code appended to site/machine.py of a copy: the machine then has eight devices."""
RATES = {
    "sleeping/base/gpus1_": {"step_s": 0.12},
    "sleeping/base/gpus2_": {"step_s": 0.13},
    "sleeping/base/gpus4_": {"step_s": 0.6},
    "dozing/base/gpus1_": {"step_s": 0.24},
    "dozing/base/gpus2_": "crash",
}
"""Seconds of a step with 64 images per device: an efficiency of 0.92 on two devices and of 0.2 on four.

Both are so far from the limit of 0.5 that a busy machine, which delays the end of each sleep, changes no decision.
"""
BEHAVIOURS = {part.replace("/", "__"): behaviour for part, behaviour in RATES.items()}
BELOW = "efficiency 0."


def adaptive(**changes) -> dict:
    rules = {"num_gpus": "auto", "stop_below_efficiency": 0.5, "train_best": 1, "probe_steps": 20}
    return study(devices=["cpu"], **rules, **changes)


def read_statuses(project: Project) -> dict[str, tuple[str, str]]:
    """Return status and reason of each run, by study, framework and device count."""
    return {
        f"{row['study']} {row['framework']} {row['num_gpus']}": (row["status"], row["reason"])
        for row in project.read_rows()
    }


def list_jobs(project: Project) -> list[str]:
    """Return the records of all jobs of runs, which are one for each attempt."""
    return sorted(str(path) for path in (project.folder / "results" / "jobs" / "run").rglob("*.json"))


@pytest.fixture
def project(project, prepared):
    """Return a project on a machine of eight devices."""
    project.take_prepared(prepared)
    project.leave_figures_blank()
    project.edit("workflow/lib/howmanygpus/site/machine.py", EIGHT_CORES)
    project.edit("workflow/lib/howmanygpus/measure/host/devices.py", SHARED_CORES)
    project.behave(**BEHAVIOURS)
    return project


def test_a_grid_goes_as_far_as_it_is_worth_it(project):
    project.write_config(small=adaptive(budget_device_h=1.0))
    summary = project.snakemake("--dry-run")
    assert "Decided later, by what this call measures: 14 runs" in summary, summary
    assert "device-hours: unknown, at most 1\n" in summary, "the budget limits the runs"
    project.snakemake(*ANSWERS, expect=1)
    found = read_statuses(project)
    assert {name for name, (status, _) in found.items() if status == "completed"} == {
        *("small_probe sleeping 1", "small_probe sleeping 2", "small_probe sleeping 4", "small_probe dozing 1"),
        "small sleeping 2",
    }
    assert found["small_probe dozing 2"][0] == "crashed"
    status, reason = found["small_probe sleeping 8"]
    assert status == "not_run" and reason.startswith(BELOW) and reason.endswith(" at 4 devices is below 0.5")
    assert found["small sleeping 8"] == (status, reason)
    assert found["small dozing 2"] == ("not_run", "its probe gave no rate (crashed)")
    assert found["small_probe dozing 4"] == ("not_run", "2 devices gave no rate (crashed)")
    assert found["small sleeping 1"][1].startswith("rank 2 by throughput (")
    answer = project.read("results/tables/answer.md")
    assert "These are short probes of small" in answer and f"Not run: {BELOW}" in answer

    jobs = list_jobs(project)
    project.behave(**BEHAVIOURS | {"dozing__base__gpus2_": {"step_s": 0.8}})
    project.snakemake(*ANSWERS)
    assert len(list_jobs(project)) == len(jobs) + 1, "a second call tries what failed, and goes on from there"
    found = read_statuses(project)
    assert found["small_probe dozing 2"][0] == "completed"
    assert found["small_probe dozing 4"][1].endswith(" at 2 devices is below 0.5")
    jobs = list_jobs(project)
    assert NOTHING in project.snakemake(*ANSWERS) and list_jobs(project) == jobs


def test_a_call_after_ctrl_c_in_a_later_pass_goes_on_there(project):
    project.write_config(small=study(frameworks=["sleeping"], num_gpus="auto", stop_below_efficiency=0.5))
    project.behave(sleeping__base__gpus1_=RATES["sleeping/base/gpus1_"], sleeping__base__gpus2_="hang")
    command = [*STARTED_BY_USERS, "--profile", project.profile, *RUNS]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    options = {"cwd": project.folder, "env": project.environment(), "preexec_fn": listen_to_ctrl_c, **pipes}
    with subprocess.Popen(command, start_new_session=True, **options) as call:
        wait_for(project, "results/attempts/small/sleeping/base/*gpus2_*/*/events.jsonl", call)
        os.killpg(call.pid, signal.SIGINT)
        printed, _ = call.communicate(timeout=HANG_S)
    assert call.returncode == 1 and "The call was interrupted by Ctrl-C" in printed
    assert printed.count("Building DAG of jobs") == 2, "the second pass was the same process, and no third one followed"

    project.snakemake("available", *ROWS)
    found = read_statuses(project)
    assert found["small sleeping 1"] == ("completed", "")
    assert found["small sleeping 2"][0] == "interrupted"
    assert found["small sleeping 4"] == ("missing", "decided later: by the rates of fewer than 4 devices")

    project.behave(**BEHAVIOURS)
    project.snakemake(*RUNS)
    project.snakemake("available", *ROWS)
    assert [status for status, _ in read_statuses(project).values()] == [*["completed"] * 3, "not_run"]
    jobs = [path.split("gpus")[1][0] for path in list_jobs(project)]
    assert jobs == ["1", "2", "2", "4"], "only what was interrupted was tried again"


def wait_for(project: Project, pattern: str, call: subprocess.Popen, patience_s: float = 900.0) -> None:
    deadline = time.monotonic() + patience_s
    while not any(project.folder.glob(pattern)):
        assert call.poll() is None and time.monotonic() < deadline, f"{pattern} did not appear"
        time.sleep(0.2)
