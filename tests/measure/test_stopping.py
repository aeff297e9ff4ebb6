"""When a run ends, none of its processes goes on: also none whose parent died, nor one that was just starting."""

import os
import subprocess
import sys

import psutil
import pytest

from hanging import HANG_S
from helpers.processes import kill_those_left
from howmanygpus.measure.host.processes import stop_process_tree
from project import ROOT

RUN = """
import os, sys, time
from pathlib import Path
from howmanygpus.measure.host.processes import start_processes, stop_descendants

child = start_processes(["bash", "-c", sys.argv[1]], dict(os.environ), [min(os.sched_getaffinity(0))])
while not Path("ready").exists():
    time.sleep(0.02)
stop_descendants(grace_s=float(sys.argv[2]))
"""
START = "sleep 600 2>/dev/null & echo $! > born"
COMMANDS = {
    "left by a shell that has ended": (f"{START}; touch ready", 120),
    "in a session of its own": (f"setsid bash -c '{START}'; touch ready; sleep 600", 120),
    "started during the stop": (f"trap '{START}; exit' TERM; touch ready; while true; do sleep 0.05; done", 120),
    "deaf to SIGTERM": (f"trap '' TERM; {START}; touch ready; sleep 600", 1),
}


@pytest.mark.parametrize(("command", "grace_s"), COMMANDS.values(), ids=COMMANDS)
def test_no_process_of_a_run_goes_on(tmp_path, command, grace_s):
    environment = os.environ | {"PYTHONPATH": str(ROOT / "workflow" / "lib")}
    words = [sys.executable, "-c", RUN, command, str(grace_s)]
    subprocess.run(words, env=environment, cwd=tmp_path, check=True, timeout=HANG_S)
    born = int((tmp_path / "born").read_text())
    assert not kill_those_left([psutil.Process(born)] if psutil.pid_exists(born) else [], timeout_s=0)


def test_a_process_of_another_user_does_not_fail_the_run_that_left_it(monkeypatch):
    """A setuid program, such as those that mount containers, may refuse signals."""

    def refuse(process, signum):
        raise psutil.AccessDenied(process.pid)

    with subprocess.Popen(["sleep", "600"]) as child:
        try:
            monkeypatch.setattr(psutil.Process, "send_signal", refuse)
            stop_process_tree(psutil.Process(child.pid), grace_s=0.1)
            assert child.poll() is None
        finally:
            child.kill()
