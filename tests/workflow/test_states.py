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
from hanging import HANG_S
from howmanygpus.files import write_json_atomic
from project import ROOT

COMMANDS = ("sbatch", "squeue", "sacct", "scontrol", "scancel", "sinfo")
SNAKEFILE = """
from howmanygpus.invocation.submitted_jobs import find_older_jobs
from howmanygpus.invocation import executor, interrupting, job_states
from howmanygpus.invocation.failing import Failures
from howmanygpus.site.jobs.invocations import announce
from snakemake.logging import logger

executor.FIRST_PAUSE_S, executor.MAX_PAUSE_S, executor.POLL_S, executor.PAUSE_GROWTH_S = 0.2, 0.5, 0.1, 0
job_states.SILENT_S, job_states.REPORT_S, job_states.PATIENCE_S = 3, 600, 20
executor.adopt()

onstart:
    interrupting.note_signals(workflow.scheduler)
    logger.addFilter(Failures(workflow, logger.error))
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
FOR_EVER = 1e9
"""Duration of jobs that run until the test gives them another one."""


class FakeSlurm:
    """A folder in which commands of that name answer as a plan says; see tests/fakes/pretend_slurm.py.

    printed: what the last call has printed so far.
    """

    def __init__(self, folder: Path):
        self.folder, self.state, self.printed = folder, folder / "slurm", folder / "printed.txt"
        (self.state / "jobs").mkdir(parents=True)
        (self.state / "bin").mkdir()
        for command in COMMANDS:
            (self.state / "bin" / command).write_text(
                f"#!{sys.executable} -SE\n" + (ROOT / "tests/fakes/pretend_slurm.py").read_text()
            )
            (self.state / "bin" / command).chmod(0o755)
        self.plan()

    def plan(self, **plan) -> None:
        write_json_atomic(self.state / "plan.json", plan)

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
        with open(self.printed, "w") as file:
            output = {"stdout": file, "stderr": subprocess.STDOUT}
            return subprocess.Popen(command, cwd=self.folder, env=environment, preexec_fn=listen_to_ctrl_c, **output)

    def finish(self, process: subprocess.Popen) -> str:
        """Return what a call prints. A call that does not end fails the test."""
        try:
            process.wait(timeout=HANG_S)
        except subprocess.TimeoutExpired:
            kill(process)
            raise AssertionError(f"the call does not end: {self.printed.read_text()[-3000:]}") from None
        return self.printed.read_text()

    def list_jobs(self) -> list[dict]:
        return [json.loads(path.read_text()) for path in sorted((self.state / "jobs").iterdir())]

    def list_running(self) -> list[dict]:
        """Return the jobs that were not cancelled."""
        return [job for job in self.list_jobs() if "state" not in job]

    def wait_for_jobs(self, count: int) -> None:
        """Wait until so many jobs are in the queue, and the call knows their numbers."""
        notes = self.folder / ".snakemake" / "howmanygpus" / "submitted"
        for folder in (self.state / "jobs", notes):
            self.wait_until(lambda folder=folder: len(list(folder.glob("[!.]*"))) >= count)

    def wait_for_words(self, words: str) -> None:
        self.wait_until(lambda: words in self.printed.read_text())

    def wait_until(self, condition) -> None:
        deadline = time.monotonic() + HANG_S
        while not condition():
            assert time.monotonic() < deadline, self.printed.read_text()[-3000:]
            time.sleep(0.1)


@pytest.fixture
def slurm(tmp_path):
    return FakeSlurm(tmp_path)


@pytest.mark.parametrize("command", ["squeue", "sacct"])
def test_a_grid_of_40_runs_ends_whatever_questions_are_answered(slurm, command):
    answers = ["well", "nothing", "garbage", "error", "delay"]
    slurm.plan(run_s=2, **dict.fromkeys(("squeue", "sacct", "scontrol"), answers))
    process = slurm.start(40, "--slurm-status-command", command)
    output = slurm.finish(process)
    assert process.returncode == 0, output[-3000:]
    assert len(slurm.list_jobs()) == len(list(slurm.folder.glob("run*.txt"))) == 40, "each run is submitted once"


def test_a_job_that_ended_and_was_forgotten_during_a_silence_is_judged_by_its_files(slurm):
    told = "SLURM has not told the state of 3 job(s) for"
    slurm.plan(run_s=FOR_EVER, sacct=["always"])
    process = slurm.start(3, "--slurm-status-command", "squeue")
    slurm.wait_for_jobs(3)
    slurm.plan(away=True, sacct=["always"])
    slurm.wait_for_words(told)
    slurm.plan(run_s=0, forget_s=0, sacct=["always"])
    output = slurm.finish(process)
    assert process.returncode == 0, output[-3000:]
    assert len(slurm.list_jobs()) == 3
    assert output.count(told) == 1 and "squeue: error: Unable to contact slurm controller" in output
    assert output.index(told) < output.index("SLURM tells the states of all jobs again")


def test_a_forgotten_job_without_results_has_failed(slurm):
    slurm.plan(run_s=FOR_EVER, sacct=["always"])
    process = slurm.start(1, "--slurm-status-command", "squeue")
    slurm.wait_for_jobs(1)
    (slurm.state / "outputs").write_text("{}")
    slurm.plan(run_s=0, forget_s=0, sacct=["always"])
    assert "SLURM does not know it any more, and it has left no result" in slurm.finish(process)
    assert process.returncode == 1


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_ends_a_call_that_slurm_does_not_answer(slurm, name):
    slurm.plan(run_s=FOR_EVER, sacct=["always"])
    process = slurm.start(2, "--slurm-status-command", "squeue")
    slurm.wait_for_jobs(2)
    slurm.plan(away=True, sacct=["always"])
    slurm.wait_for_words("SLURM has not told the state of 2 job(s) for")
    process.send_signal(signal.Signals[name])
    if name == "SIGTERM":
        slurm.wait_for_words("Will exit after finishing currently running jobs")
        slurm.plan(run_s=0, sacct=["always"])
    output = slurm.finish(process)
    assert "Traceback" not in output
    if name == "SIGINT":
        assert "The jobs of this call could not be cancelled" in output and "`scancel 101 102` cancels them" in output
    else:
        assert output.count("(Rule: run)") == 2, "Snakemake ends when its running jobs have ended"


def test_more_jobs_than_a_site_takes_are_submitted_one_after_another(slurm):
    slurm.plan(run_s=FOR_EVER, most=3)
    process = slurm.start(12)
    slurm.wait_for_words("not submitted yet, sbatch is tried again")
    slurm.plan(run_s=2, most=3)
    output = slurm.finish(process)
    assert process.returncode == 0 and len(slurm.list_jobs()) == 12, output[-3000:]
    assert output.count("not submitted yet, sbatch is tried again") == 1 and "MaxSubmitJobLimit" in output
    assert "lower `jobs` in config.yaml" in output and "Error in rule" not in output


def test_a_job_that_sbatch_refuses_now_and_then_is_submitted(slurm):
    slurm.plan(run_s=1, sbatch=["well", "error"])
    process = slurm.start(8)
    output = slurm.finish(process)
    assert process.returncode == 0, output[-3000:]


def test_a_job_that_sbatch_has_submitted_without_saying_so_is_cancelled(slurm):
    slurm.plan(run_s=FOR_EVER, sbatch=["late"])
    process = slurm.start(2)
    slurm.wait_for_words("not submitted yet, sbatch is tried again")
    slurm.plan(run_s=FOR_EVER)
    slurm.wait_until(lambda: len(slurm.list_running()) == 2 and slurm.list_running() != slurm.list_jobs())
    slurm.plan(run_s=0)
    output = slurm.finish(process)
    assert process.returncode == 0, output[-3000:]
    assert sorted(job["comment"] for job in slurm.list_running()) == [f"rule_run_wildcards_{i}" for i in range(2)]


def test_a_job_that_sbatch_will_never_take_is_refused_at_once(slurm):
    slurm.plan(sbatch=["refused"])
    process = slurm.start(2, "--keep-going")
    output = slurm.finish(process)
    assert process.returncode == 1 and "SLURM refused the job: " in output
    assert "not submitted yet" not in output


def kill(process: subprocess.Popen) -> None:
    process.kill()
    process.wait()


def test_a_killed_call_leaves_jobs_that_the_next_one_waits_for(slurm):
    slurm.plan(run_s=FOR_EVER)
    process = slurm.start(4)
    slurm.wait_for_jobs(4)
    kill(process)
    slurm.finish(slurm.start(4, "--unlock"))
    process = slurm.start(5)
    slurm.wait_for_jobs(5)
    slurm.plan(run_s=0)
    output = slurm.finish(process)
    assert process.returncode == 0, output[-3000:]
    assert len(slurm.list_jobs()) == 5 and not any("state" in job for job in slurm.list_jobs())
    assert "Jobs of a killed call that have not ended: 4." in output
    assert output.count("of an earlier call is doing this; it is waited for.") == 4


def test_an_outdated_job_of_a_killed_call_is_cancelled_and_replaced(slurm):
    slurm.plan(run_s=FOR_EVER)
    process = slurm.start(1)
    slurm.wait_for_jobs(1)
    kill(process)
    slurm.finish(slurm.start(1, "--unlock"))
    process = slurm.start(1, "--config", "setting=2", "runs=1")
    slurm.wait_until(lambda: len(slurm.list_jobs()) == 2)
    slurm.plan(run_s=0)
    output = slurm.finish(process)
    assert process.returncode == 0, output[-3000:]
    assert [job.get("state") for job in slurm.list_jobs()] == ["CANCELLED", None]


def test_jobs_of_a_killed_call_are_not_repeated_while_slurm_does_not_tell_them(slurm):
    slurm.plan(run_s=FOR_EVER)
    process = slurm.start(1)
    slurm.wait_for_jobs(1)
    kill(process)
    slurm.finish(slurm.start(1, "--unlock"))
    slurm.plan(run_s=FOR_EVER, squeue=["error"])
    process = slurm.start(1)
    assert "a call in this folder was killed whose jobs may go on" in slurm.finish(process)
    assert process.returncode == 1 and len(slurm.list_jobs()) == 1
