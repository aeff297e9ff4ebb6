"""A command in a session of its own ends by itself or at a deadline, and leaves no process behind."""

import signal
import sys
import time

import psutil
import pytest

from howmanygpus.surroundings.sessions import explain_end, run_until

PROGRAM = """
import os, pathlib, signal, subprocess
child = subprocess.Popen(["sleep", "600"])
pathlib.Path("child").write_text(str(child.pid))
"""


def run(folder, program: str, seconds: float = 60.0) -> int | None:
    return run_until(time.monotonic() + seconds, [sys.executable, "-c", program], cwd=folder)


@pytest.mark.parametrize("status", [0, 3])
def test_the_exit_status_of_a_command_is_returned(tmp_path, status):
    assert run(tmp_path, f"raise SystemExit({status})") == status


@pytest.mark.parametrize(
    ("end", "seconds", "status"),
    [("child.wait()", 2.0, None), ("os.kill(os.getpid(), signal.SIGKILL)", 60.0, -signal.SIGKILL)],
    ids=["stopped", "killed"],
)
def test_nothing_is_left_of_a_command_that_was_stopped_or_killed(tmp_path, end, seconds, status):
    assert run(tmp_path, PROGRAM + end, seconds) == status
    child = int((tmp_path / "child").read_text())
    assert not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE


@pytest.mark.parametrize(("status", "words"), [(1, "with status 1"), (-9, "killed by SIGKILL")])
def test_an_end_is_explained_by_its_status(status, words):
    assert words in explain_end("Snakemake", status)
