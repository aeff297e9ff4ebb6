"""Copies of the project can be watched and ended while their calls start and end processes."""

import fcntl
import signal
import subprocess

import psutil
import pytest

import forking
from project import PIPE_BYTES, Project


def test_a_process_may_end_before_it_is_killed(tmp_path, monkeypatch):
    project = Project(tmp_path / "project", fakes=())
    with subprocess.Popen(["sleep", "600"], cwd=project.folder) as sleeping:
        found = project.processes()
        sleeping.kill()
    assert [process.pid for process in found] == [sleeping.pid]
    monkeypatch.setattr(project, "processes", lambda: found)
    project.kill_processes()
    assert not psutil.pid_exists(sleeping.pid)


def test_a_parent_of_forks_that_has_ended_is_replaced_and_its_status_named(tmp_path):
    project = Project(tmp_path / "project", fakes=())
    version = project.snakemake("--version")
    forking._parent().kill()
    forking._parent().wait()
    with pytest.warns(match=f"had ended with status {-signal.SIGKILL}"):
        assert project.snakemake("--version") == version


def test_a_call_may_print_much_before_anybody_reads_it(tmp_path):
    with Project(tmp_path / "project", fakes=()).start("--version") as call:
        assert fcntl.fcntl(call.stdout, fcntl.F_GETPIPE_SZ) >= PIPE_BYTES
