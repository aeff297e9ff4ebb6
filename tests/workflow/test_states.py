"""Whatever SLURM answers to questions about its jobs, Snakemake loses no job, says so, and ends with its work."""

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
from howmanygpus.snakemake_patches import states

states.SILENT_S, states.REPORT_S, states.PATIENCE_S, states.PAUSE_GROWTH_S = 3, 600, 20, 0
snakemake_patches.patch_every_process(is_job=False)

onstart:
    snakemake_patches.patch_scheduling(submits=True)

rule all:
    input: expand("run{i}.txt", i=range(int(config["runs"])))

rule run:
    output: "run{i}.txt"
    resources: mem_mb=10, runtime=1
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
        words = ["--executor", "slurm", "--jobs", "100", "--latency-wait", "2", "--config", f"runs={num_runs}"]
        command = [sys.executable, "-m", "snakemake", *words, *quick, *options]
        output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        return subprocess.Popen(command, cwd=self.folder, env=environment, preexec_fn=listen_to_ctrl_c, **output)

    def list_jobs(self) -> list[dict]:
        return [json.loads(path.read_text()) for path in sorted((self.state / "jobs").iterdir())]

    def wait_for_jobs(self, count: int) -> None:
        deadline = time.monotonic() + 120
        while len(list((self.state / "jobs").iterdir())) < count:
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
