"""Ctrl-C and SIGTERM cancel the jobs of a call, and Ctrl-C says how to do so later if SLURM does not answer."""

import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
import snakemake.api  # noqa: F401  (the plugin cannot be imported before it)
import snakemake_executor_plugin_slurm as slurm_plugin

from howmanygpus.snakemake_patches import cancelling


@pytest.fixture
def called(monkeypatch) -> list:
    """Return the list of calls of scancel after the patch is applied."""
    calls: list = []
    monkeypatch.setattr(slurm_plugin.Executor, "cancel_jobs", slurm_plugin.Executor.cancel_jobs)
    monkeypatch.setattr(cancelling, "list_jobs", lambda calls, *options: ["7", "8"] if calls == ["the-call"] else [])

    def scancel(command, **_):
        calls.append(command)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(cancelling.subprocess, "run", scancel)
    cancelling.apply()
    return calls


def test_ctrl_c_cancels_every_job_of_the_call_and_submits_no_more(called):
    submitting, gate = ThreadPoolExecutor(1), threading.Event()
    submitting.submit(lambda: called.append("first" if gate.wait(120) else ""))
    submitting.submit(called.append, "second")
    shutdown = submitting.shutdown
    # The first submission ends once the second one has been given up.
    submitting.shutdown = lambda wait=True, **how: (shutdown(wait=False, **how), gate.set(), shutdown(wait=wait))
    asked_about = [SimpleNamespace(external_jobid="6")]
    executor = SimpleNamespace(run_uuid="the-call", _job_submission_executor=submitting, asked_about=asked_about)
    slurm_plugin.Executor.cancel_jobs(executor, [])
    assert called == ["first", ["scancel", "6", "7", "8"]]


def test_sigterm_cancels_waiting_jobs_until_the_call_ends(called, monkeypatch):
    monkeypatch.setattr(cancelling, "REPEAT_S", 0.05)
    executor = SimpleNamespace(run_uuid="the-call", wait=True, next_seconds_between_status_checks=180)
    slurm_plugin.Executor.cancel_waiting_jobs(executor)
    deadline = time.monotonic() + 120
    while len(called) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    (thread,) = (each for each in threading.enumerate() if each.name == "cancelling")
    executor.wait = False
    thread.join(timeout=120)
    assert called[:2] == [["scancel", "--state=PENDING", "7", "8"]] * 2
    assert executor.next_seconds_between_status_checks == 0.05, "the plugin soon asks for the jobs' states"


def test_jobs_that_cannot_be_cancelled_are_named_with_the_command_for_later(called, monkeypatch):
    def wait(command, timeout, **_):
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(cancelling.subprocess, "run", wait)
    told = []
    executor = SimpleNamespace(run_uuid="the-call", _job_submission_executor=ThreadPoolExecutor(1))
    executor.logger = SimpleNamespace(error=told.append)
    slurm_plugin.Executor.cancel_jobs(executor, [SimpleNamespace(external_jobid="7")])
    assert "could not be cancelled: scancel did not answer" in told[0] and "`scancel 7` cancels them" in told[0]
