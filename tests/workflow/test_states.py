"""Whatever SLURM answers to questions and submissions, Snakemake loses and repeats no job, and ends with its work."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from forking import listen_to_ctrl_c
from project import ROOT

COMMANDS = ("sbatch", "squeue", "sacct", "scontrol", "scancel", "sinfo")
SNAKEFILE = """
from howmanygpus import snakemake_patches
from howmanygpus.call.taking_over import find_older_jobs
from howmanygpus.snakemake_patches import states, submitting
from howmanygpus.train.start.calls import announce
from snakemake.logging import logger

submitting.FIRST_PAUSE_S, submitting.LONGEST_PAUSE_S, submitting.POLL_S = 0.2, 0.5, 0.1
states.SILENT_S, states.REPORT_S, states.PATIENCE_S, states.PAUSE_GROWTH_S = 3, 600, 20, 0
snakemake_patches.patch_every_process(is_job=False)

onstart:
    snakemake_patches.patch_scheduling(submits=True)
    refused = find_older_jobs(logger.warning)
    assert not refused, refused
    announce(workflow.scheduler._executor.run_uuid)

rule all:
    input: expand("run{i}.txt", i=range(int(config["runs"])))

rule run:
    output: "run{i}.txt"
    resources: mem_mb=10, runtime=1
    params: config.get("setting", 1)
    shell: "touch {output}"
"""


class FakeSlurm:
    """A folder in which commands of that name answer as a plan says; see tests/fakes/pretend_slurm.py."""

    def __init__(self, folder: Path):
        self.folder, self.state = folder, folder / "slurm"
        (self.state / "jobs").mkdir(parents=True)
        (self.state / "bin").mkdir()
        for command in COMMANDS:
            (self.state / "bin" / command).write_text(
                f"#!{sys.executable} -SE\n" + (ROOT / "tests/fakes/pretend_slurm.py").read_text()
            )
            (self.state / "bin" / command).chmod(0o755)
        self.plan()

    def plan(self, **plan) -> None:
        (self.state / "plan.json").write_text(json.dumps(plan))

    def start(self, num_runs: int, *options: str) -> subprocess.Popen:
        """Start a call with that many runs."""
        (self.folder / "Snakefile").write_text(SNAKEFILE)
        outputs = {f"rule_run_wildcards_{i}": [str(self.folder / f"run{i}.txt")] for i in range(num_runs)}
        (self.state / "outputs").write_text(json.dumps(outputs))
        own = {"PATH": f"{self.state / 'bin'}:{os.environ['PATH']}", "FAKE_SLURM": str(self.state)}
        environment = os.environ | own | {"PYTHONPATH": str(ROOT / "workflow" / "lib")}
        quick = ["--slurm-init-seconds-before-status-checks", "1", "--seconds-between-status-checks", "1"]
        words = ["--executor", "slurm", "--jobs", "100", "--latency-wait", "2", "--rerun-incomplete"]
        told = [] if "--config" in options else ["--config", f"runs={num_runs}"]
        command = [sys.executable, "-m", "snakemake", *words, *quick, *told, *options]
        output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        return subprocess.Popen(command, cwd=self.folder, env=environment, preexec_fn=listen_to_ctrl_c, **output)

    def list_jobs(self) -> list[dict]:
        return [json.loads(path.read_text()) for path in sorted((self.state / "jobs").iterdir())]

    def wait_for_jobs(self, count: int) -> None:
        self._wait_for_files(self.state / "jobs", count)

    def wait_for_notes(self, count: int) -> None:
        self._wait_for_files(self.folder / ".snakemake" / "howmanygpus" / "submitted", count)

    def _wait_for_files(self, folder: Path, count: int) -> None:
        deadline = time.monotonic() + 120
        while len(list(folder.glob("[!.]*"))) < count:
            assert time.monotonic() < deadline
            time.sleep(0.1)


def finish(process: subprocess.Popen, timeout_s: float = 150.0) -> str:
    """Return what a call prints. A call that does not end fails the test."""
    try:
        return process.communicate(timeout=timeout_s)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        raise AssertionError(f"the call does not end: {process.communicate()[0][-3000:]}") from None


@pytest.fixture
def slurm(tmp_path):
    return FakeSlurm(tmp_path)


@pytest.mark.parametrize("command", ["squeue", "sacct"])
def test_a_grid_of_40_runs_ends_whatever_questions_are_answered(slurm, command):
    answers = ["well", "nothing", "garbage", "error", "delay"]
    slurm.plan(run_s=2, **dict.fromkeys(("squeue", "sacct", "scontrol"), answers))
    process = slurm.start(40, "--slurm-status-command", command)
    output = finish(process)
    assert process.returncode == 0, output[-3000:]
    assert len(slurm.list_jobs()) == len(list(slurm.folder.glob("run*.txt"))) == 40, "each run is submitted once"


def test_a_job_that_ended_and_was_forgotten_during_a_silence_is_judged_by_its_files(slurm):
    slurm.plan(run_s=2, forget_s=1, away=[1, 9], sacct=["always"])
    process = slurm.start(3, "--slurm-status-command", "squeue")
    output = finish(process)
    assert process.returncode == 0, output[-3000:]
    assert len(slurm.list_jobs()) == 3
    told = "SLURM has not told the state of 3 job(s) for"
    assert output.count(told) == 1 and "squeue: error: Unable to contact slurm controller" in output
    assert output.index(told) < output.index("SLURM tells the states of all jobs again")


def test_a_forgotten_job_without_results_has_failed(slurm):
    slurm.plan(run_s=1, forget_s=0, sacct=["always"])
    process = slurm.start(1, "--slurm-status-command", "squeue")
    slurm.wait_for_jobs(1)
    (slurm.state / "outputs").write_text("{}")
    (slurm.folder / "run0.txt").unlink(missing_ok=True)
    assert "SLURM does not know it any more, and it has left no result" in finish(process)
    assert process.returncode == 1


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_ends_a_call_that_slurm_does_not_answer(slurm, name):
    slurm.plan(run_s=8, away=[1, 8 if name == "SIGTERM" else 1e9], sacct=["always"])
    process = slurm.start(2, "--slurm-status-command", "squeue")
    slurm.wait_for_jobs(2)
    time.sleep(3)
    process.send_signal(signal.Signals[name])
    output = finish(process, timeout_s=60)
    assert "Traceback" not in output
    if name == "SIGINT":
        assert "The jobs of this call could not be cancelled" in output and "`scancel 101 102` cancels them" in output
    else:
        assert output.count("(Rule: run)") == 2, "Snakemake ends when its running jobs have ended"


def test_more_jobs_than_a_site_takes_are_submitted_one_after_another(slurm):
    slurm.plan(run_s=2, most=3)
    process = slurm.start(12)
    output = finish(process)
    assert process.returncode == 0 and len(slurm.list_jobs()) == 12, output[-3000:]
    assert output.count("not submitted yet, sbatch is tried again") == 1 and "MaxSubmitJobLimit" in output
    assert "lower `jobs` in config.yaml" in output and "Error in rule" not in output


def test_a_job_that_sbatch_refuses_now_and_then_is_submitted(slurm):
    slurm.plan(run_s=1, sbatch=["well", "error"])
    process = slurm.start(8)
    output = finish(process)
    assert process.returncode == 0, output[-3000:]


def test_a_job_that_sbatch_will_never_take_is_refused_at_once(slurm):
    slurm.plan(sbatch=["refused"])
    process = slurm.start(2, "--keep-going")
    output = finish(process, timeout_s=60)
    assert process.returncode == 1 and "SLURM refused the job: " in output
    assert "not submitted yet" not in output


def kill(process: subprocess.Popen) -> None:
    process.kill()
    process.communicate()


def test_a_killed_call_leaves_jobs_that_the_next_one_waits_for(slurm):
    slurm.plan(run_s=12)
    process = slurm.start(4)
    slurm.wait_for_notes(4)
    kill(process)
    finish(slurm.start(4, "--unlock"))
    process = slurm.start(5)
    output = finish(process)
    assert process.returncode == 0, output[-3000:]
    assert len(slurm.list_jobs()) == 5 and not any("state" in job for job in slurm.list_jobs())
    assert "Jobs of a killed call that have not ended: 4." in output
    assert output.count("of an earlier call is doing this; it is waited for.") == 4


def test_a_job_of_a_killed_call_whose_work_has_changed_is_cancelled_and_replaced(slurm):
    slurm.plan(run_s=12)
    process = slurm.start(1)
    slurm.wait_for_notes(1)
    kill(process)
    finish(slurm.start(1, "--unlock"))
    process = slurm.start(1, "--config", "setting=2", "runs=1")
    output = finish(process)
    assert process.returncode == 0, output[-3000:]
    assert [job.get("state") for job in slurm.list_jobs()] == ["CANCELLED", None]


def test_jobs_of_a_killed_call_are_not_repeated_while_slurm_does_not_tell_them(slurm):
    slurm.plan(run_s=12)
    process = slurm.start(1)
    slurm.wait_for_notes(1)
    kill(process)
    finish(slurm.start(1, "--unlock"))
    slurm.plan(run_s=12, squeue=["error"])
    process = slurm.start(1)
    assert "a call in this folder was killed whose jobs may go on" in finish(process)
    assert process.returncode == 1 and len(slurm.list_jobs()) == 1
