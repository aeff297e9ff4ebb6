"""When a run ends, none of its processes goes on: also none whose parent died, nor one that was just starting."""

import os
import subprocess
import sys

import psutil
import pytest

from ending import kill_those_left
from project import ROOT

RUN = """
import os, sys, time
from pathlib import Path
from howmanygpus.train.host.processes import start_processes, stop_descendants

child = start_processes(["bash", "-c", sys.argv[1]], dict(os.environ), [min(os.sched_getaffinity(0))])
while not Path("ready").exists():
    time.sleep(0.02)
stop_descendants(grace_s=2.0)
"""
START = "sleep 600 2>/dev/null & echo $! > born"
COMMANDS = {
    "left by a shell that has ended": f"{START}; touch ready",
    "in a session of its own": f"setsid bash -c '{START}'; touch ready; sleep 600",
    "started while its parent is stopped": f"trap '{START}; exit' TERM; touch ready; while true; do sleep 0.05; done",
    "deaf to SIGTERM": f"trap '' TERM; {START}; touch ready; sleep 600",
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_no_process_of_a_run_goes_on(tmp_path, command):
    environment = os.environ | {"PYTHONPATH": str(ROOT / "workflow" / "lib")}
    subprocess.run([sys.executable, "-c", RUN, command], env=environment, cwd=tmp_path, check=True, timeout=300)
    born = int((tmp_path / "born").read_text())
    assert not kill_those_left([psutil.Process(born)] if psutil.pid_exists(born) else [], timeout_s=0)
