"""A verdict decides whether the runs that wait for it are started. A crash of the gate is no verdict."""

import os
import re
import subprocess
import sys

from howmanygpus.study.gate_cells import MAX_GATE_DEVICES
from project import LISTED, ROWS, study

BF16 = """
FRAMEWORKS["sleeping"].precisions["cpu"] = ("fp32", "bf16")
"""
RETRY = [sys.executable, "workflow/scripts/retry_runs.py"]


def read_statuses(project):
    return {(row["framework"], row["num_gpus"]): (row["status"], row["reason"]) for row in project.read_rows()}


def test_a_framework_that_fails_is_trained_only_where_parity_is_not_required(project, environment_python):
    environment_python("pytorch-cpu")  # The reference needs it. A fake's random predictions do not match it.
    project.write_config(small=study(frameworks=["sleeping"], parity="required"))
    printed = project.snakemake(*ROWS, "write_parity_page", expect=1)
    assert "No run was trained: " in printed
    assert "No run was trained: " in project.snakemake(*ROWS, expect=1), "a call that has nothing to do says it, too"
    for status, reason in read_statuses(project).values():
        assert status == "failed_parity"
        assert reason.startswith("exchange on 2 devices") and "results/parity/" in reason
    assert "evaluation" in project.read("results/parity/parity.html")
    check_progress(project, printed)

    project.write_config(small=study(frameworks=["sleeping"], parity="report"))
    assert project.planned_runs() == []
    (project.folder / "results" / "runs" / "small").rename(project.folder / "move_aside")
    project.snakemake(*ROWS)
    assert {status for status, _ in read_statuses(project).values()} == {"completed"}
    assert "failed" in project.read("results/tables/small/runs.tsv"), "the verdict stands beside the numbers"

    project.edit("workflow/lib/howmanygpus/gate/judge.py", "\nNEW = 1\n")
    assert "check_parity" in project.planned() and project.planned_runs() == [], "a changed gate trains nothing"


def check_progress(project, printed: str):
    """Check that the screen says how long the gate may take, and its logs what it does."""
    logs = project.folder / "results" / "logs"
    (reference,) = logs.glob("compute_reference/*.log")
    (observed,) = logs.glob("observe_parity/sleeping_cpu-*.log")
    assert "Before the first run, the parity gate does 3 jobs (how long they take is not known" in printed
    assert "s: step 1 of 4: sgd on 1 device\n" in reference.read_text()
    lines = observed.read_text().splitlines()
    starts = ["Layout 1 of 2: 1 device on 1 node", "Starting sleeping on 1 device: 2 of 2 tasks are left"]
    assert [line for line in starts if line in lines] == starts
    task = "task 2 of 2: sleeping, small_cnn, fp32, own, on 1 device (small_cnn_"
    (line,) = [line for line in lines if task in line]
    assert re.match(r" *\d+\.\d s: task 2", line)
    most = min(MAX_GATE_DEVICES, len(os.sched_getaffinity(0)))
    assert lines[-1].endswith(f" s: all tasks of {most} devices have ended")


def test_a_crash_of_the_gate_is_a_failed_job_and_a_verdict_can_be_set_aside(project, environment_python):
    environment_python("pytorch-cpu")
    project.write_config(small=study(frameworks=["sleeping"], num_gpus=[1], parity="required"))
    project.behave(parity__sleeping="crash")
    printed = project.snakemake(*ROWS, expect=1)
    crash = "sleeping, small_cnn, fp32, sgd, on 1 device crashed: RuntimeError: the fake backend was told to crash"
    assert crash in printed
    assert printed.count("It is tried again.") == 1, "the job is tried once more"
    parity = project.folder / "results" / "parity"
    assert not list(parity.glob("*/sleeping_*.json")), "a crash leaves no verdict"
    assert {"observe_parity", "check_parity"} <= set(project.planned(*ROWS)), "the next call tries again"

    project.behave()
    project.snakemake(*ROWS, expect=1)
    assert {status for status, _ in read_statuses(project).values()} == {"failed_parity"}
    assert project.planned(*ROWS) == []
    for options, moved in (("--verdicts failed", "0 runs and 1 verdicts"), ("--status failed_parity", "1 runs and 1")):
        result = subprocess.run([*RETRY, *options.split()], cwd=project.folder, capture_output=True, text=True)
        assert moved in result.stdout, result.stdout + result.stderr
        run = "small/sleeping/base/arrays_fp32_cpu_gpus1_batch64_repeat1"
        assert {"observe_parity", "check_parity", run} <= set(project.planned(*ROWS))
        project.snakemake(*ROWS, expect=1)
    assert list((project.folder / "results" / "attempts" / "parity").rglob("set-aside-*/*.json")), "nothing is deleted"


def test_a_loss_that_is_not_finite_is_a_verdict(project, environment_python):
    """It says something about the work, unlike a crash."""
    environment_python("pytorch-cpu")
    project.write_config(small=study(frameworks=["sleeping"], num_gpus=[1], parity="required"))
    project.behave(parity__sleeping="diverge")
    project.snakemake(*ROWS, expect=1)
    assert {status for status, _ in read_statuses(project).values()} == {"failed_parity"}


def test_bf16_waits_for_the_verdict_in_fp32(project, environment_python):
    """No run asks for fp32, but one start observes both, and the verdict on bf16 names that in fp32."""
    environment_python("pytorch-cpu")
    project.edit("workflow/lib/howmanygpus/registry.py", BF16)
    project.write_config(small=study(frameworks=["sleeping"], num_gpus=[1], precision=["bf16"], parity="required"))
    planned = project.snakemake("--dry-run", *LISTED, *ROWS)
    assert "Exception" not in planned, "each verdict matches one rule"
    jobs = project.planned(*ROWS)
    assert (jobs.count("observe_parity"), jobs.count("check_parity")) == (1, 2)
    project.snakemake(*ROWS, expect=1)
    ((status, reason),) = read_statuses(project).values()
    assert status == "failed_parity"
    assert reason.startswith("the fp32 verdict on the same code is failed: exchange on 2 devices")
