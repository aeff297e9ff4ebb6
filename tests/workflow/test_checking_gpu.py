"""`make check-gpu` goes through all its steps: it finds a framework, runs both studies, and writes the page."""

import os
import signal
import subprocess
import sys
import time

import pytest
import yaml

from hanging import HANG_S
from project import ROOT, Project

SITE, PLAN = "workflow/lib/howmanygpus_tools/check_gpu/overlay.py", "workflow/lib/howmanygpus_tools/check_gpu/steps.py"
FOUND_HERE = """
IMPORTS["fake"], COUNTS["fake"] = "import json as framework; framework.__version__ = '1.5'", "1"
"""
WITHOUT_NETWORKS = ("--steps", "gate", "rates", "waits", "batches")
"""The steps after those that train beside an expert, of whom the fake framework has none."""


def write_config(project) -> None:
    """Write the command's config for the fake framework, without the gate, which needs PyTorch."""
    config = yaml.safe_load((ROOT / "config" / "check_gpu.yaml").read_text())
    for study in config["studies"].values():
        study |= {"model": "small_cnn", "frameworks": ["sleeping"], "inputs": ["synthetic"], "parity": "off"}
        study |= {"precision": ["fp32"], "exclude": []}
    (project.folder / "config" / "check_gpu.yaml").write_text(yaml.safe_dump(config))


STOPPABLE = """#!/bin/bash
trap 'kill $!; touch stopped; exit 1' INT
echo "$@" >called
sleep 600 &
wait
"""


def start(project, *options: str) -> subprocess.Popen:
    """Start the command for this Python's fake framework on a CPU."""
    command = [sys.executable, "-m", "howmanygpus_tools.check_gpu", "--site", sys.executable]
    command += ["--device", "cpu", *options]
    environment = project.environment() | {"PYTHONPATH": "workflow/lib"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, cwd=project.folder, env=environment, text=True, **pipes)


def finish(check: subprocess.Popen) -> subprocess.CompletedProcess:
    printed = check.communicate(timeout=HANG_S)
    return subprocess.CompletedProcess(check.args, check.returncode, *printed)


def wait_for(project, pattern: str) -> None:
    """Wait for a file of a copy."""
    deadline = time.monotonic() + HANG_S
    while not list(project.folder.glob(pattern)):
        assert time.monotonic() < deadline, f"{pattern} did not appear"
        time.sleep(0.1)


def replace_snakemake(project) -> None:
    """Let a script that waits for Ctrl-C take the place of Snakemake."""
    (project.folder / ".venv").unlink()
    snakemake = project.folder / ".venv" / "bin" / "snakemake"
    snakemake.parent.mkdir(parents=True)
    snakemake.write_text(STOPPABLE)
    snakemake.chmod(0o755)


@pytest.fixture
def checked(tmp_path, monkeypatch):
    """Return a project in which one framework is found in this Python: the fake one."""
    project = Project(tmp_path / "project", fakes=("sleeping",))
    monkeypatch.setenv("HOWMANYGPUS_CACHE", str(tmp_path / "cache"))
    write_config(project)
    project.edit(SITE, FOUND_HERE)
    project.replace(PLAN, REFERENCE="fake-cpu")
    yield project
    for process in project.processes():
        process.kill()


def test_when_time_is_up_snakemake_and_its_jobs_are_stopped(checked):
    replace_snakemake(checked)
    result = finish(start(checked, "--minutes", "0.01", *WITHOUT_NETWORKS))
    assert result.returncode == 1 and "results/check_gpu.md: 2 failures" in result.stdout
    page = checked.read("results/check_gpu.md")
    assert "run sleeping (stock, synthetic, fp32, batch 16): not run: the time was up" in page
    assert "largest batch of sleeping: batch 32: not run: the time was up" in page
    assert (checked.folder / "stopped").exists() and not checked.processes()
    called = checked.read("called").split()
    assert called[:2] == ["results/parity/parity.html", "check_gpu_rates"]
    assert called[-2:] == ["config/check_gpu.yaml", "results/check_gpu/config.yaml"]


def test_a_terminated_check_stops_snakemake_and_writes_the_page(checked):
    replace_snakemake(checked)
    check = start(checked, "--minutes", "20")
    wait_for(checked, "called")
    check.send_signal(signal.SIGTERM)
    assert finish(check).returncode == 1
    page = checked.read("results/check_gpu.md")
    assert "run sleeping (stock, synthetic, fp32, batch 16): not run: the check was interrupted" in page
    assert (checked.folder / "stopped").exists() and not checked.processes()


def test_a_check_reports_a_killed_snakemake_and_the_next_call_continues(checked):
    checked.behave(check_gpu_rates="hang")
    check = start(checked, "--minutes", "20", "--steps", "rates")
    wait_for(checked, "results/attempts/check_gpu_rates/**/events.jsonl")
    calls = [process for process in checked.processes() if "check_gpu_rates" in process.cmdline()]
    min(calls, key=lambda process: process.create_time()).kill()
    killed = finish(check)
    assert killed.returncode == 1 and "ends here: Snakemake was killed by SIGKILL" in killed.stdout
    assert not checked.processes() and list((checked.folder / ".snakemake" / "locks").iterdir())
    checked.behave(check_gpu_rates={"sleep_s": 2.5})
    result = finish(start(checked, "--minutes", "20", "--steps", "rates"))
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
    page = checked.read("results/check_gpu.md")
    assert "Everything passed in the steps site, rates on " in page
    assert "| sleeping | stock | synthetic | fp32 | completed |" in page


def test_the_command_writes_a_page_of_its_findings(checked, tmp_path):
    # Samples are taken meanwhile.
    checked.behave(check_gpu_rates={"sleep_s": 2.5}, check_gpu_batches__sleeping__base__gpus1_batch64="out_of_memory")
    result = finish(start(checked, "--minutes", "20"))
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
    page = checked.read("results/check_gpu.md")
    assert "Everything passed on " in page
    assert f"| fake-cpu | 1.5 | {sys.executable} | — |" in page
    assert "| small_cnn | 2 | sleeping | stock | completed |" in page, "beside an expert"
    assert "| sleeping | stock | synthetic | fp32 | completed |" in page
    assert "| sleeping | best | synthetic | fp32 | unsupported |" in page
    assert "| sleeping (stock, synthetic, fp32, batch 16) | " in page, "its telemetry"
    assert "| sleeping | 32 | " in page and "| 64 | out_of_memory | tried to allocate 7 GiB |" in page
    machine = yaml.safe_load(checked.read("results/check_gpu/machine.yaml"))
    python = machine["environments"]["fake-cpu"]["python"]
    assert os.path.realpath(python) == os.path.realpath(sys.executable) and str(tmp_path) in python


def test_a_rate_that_depends_on_the_wait_fails_the_check_and_is_tried_once(checked):
    """Neither the marker of a step nor its loss waits for the fake device, of which the markers tell too."""
    checked.replace(PLAN, ASYNCHRONOUS_ON_CPU=("sleeping",))
    behaviours = {"check_gpu_rates": {"sleep_s": 2.5}, "check_gpu_batches": "unsupported"}
    checked.behave(**behaviours, check_gpu_waits={"owed_s": 0.01})
    for _ in range(2):
        result = finish(start(checked, "--minutes", "20", *WITHOUT_NETWORKS))
        assert result.returncode == 1 and "results/check_gpu.md: 1 failures" in result.stdout, result.stdout[-3000:]
        assert "FAILED wait of sleeping: " in result.stdout and "do not wait" in result.stdout, result.stdout[-3000:]
        assert "| sleeping | clock_mismatch | " in checked.read("results/check_gpu.md")
        assert (checked.folder / "results" / "runs" / "check_gpu_batches").exists(), "the check goes on"
    assert "Training sleeping without its wait" not in result.stdout
    assert len(list((checked.folder / "results" / "check_gpu" / "waits").glob("*/run.json"))) == 1
    assert not list((checked.folder / "results").rglob("*check_gpu_waits*")), "no stage has a record of it"
