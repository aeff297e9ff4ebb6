"""No process outlives its parent, whenever the parent dies."""

import os
import signal
import subprocess
import sys

import psutil
import pytest

from hanging import HANG_S
from helpers import processes as ending
from helpers.processes import kill_those_left
from project import ROOT

SLOW_FORK = """
import os, time

def announce():
    print(os.getpid(), flush=True)
    time.sleep(1)

os.register_at_fork(after_in_child=announce)  # as libraries restart their threads in a child
import howmanygpus.measure.input.workers
os.fork()
time.sleep(600)
"""
SLOW_START = """
import functools, os, subprocess, time
from howmanygpus.measure.host.processes import die_with_parent

def prepare_child(parent):
    os.write(1, b"%d\\n" % os.getpid())
    time.sleep(1)
    die_with_parent(parent=parent)

subprocess.Popen(["sleep", "600"], preexec_fn=functools.partial(prepare_child, os.getpid()))
"""
SLOW_PREPARATION = """
import subprocess, sys, time

child = '''
import os, sys, time
import train

print(os.getpid(), flush=True)
time.sleep(1)
launcher = "import time; from howmanygpus.measure.launch.launch import main; main(lambda path: time.sleep(600))"
command = [sys.executable, "-c", launcher, "--attempt", "none", "--run-dir", "none", "--deadline-s", "1"]
train.exec_launcher(command, os.environ)
'''
subprocess.Popen([sys.executable, "-c", child])
time.sleep(600)
"""
SCRIPTS = {"loader's worker": SLOW_FORK, "started program": SLOW_START, "launcher": SLOW_PREPARATION}


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_a_parent_that_dies_before_its_child_asks_for_the_signal_is_noticed(script):
    places = [str(ROOT / "workflow" / name) for name in ("lib", "scripts")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(places)}
    parent = subprocess.Popen([sys.executable, "-c", script], env=environment, stdout=subprocess.PIPE, text=True)
    child = psutil.Process(int(parent.stdout.readline()))
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    assert not kill_those_left([child], timeout_s=HANG_S)


def test_a_launcher_ends_if_its_caller_died_before():
    environment = os.environ | {"PYTHONPATH": str(ROOT / "workflow" / "lib")}
    with subprocess.Popen(["true"]) as caller:
        pass
    command = [
        sys.executable,
        "-m",
        "howmanygpus.measure.launch.launch",
        "--attempt",
        "missing",
        "--run-dir",
        "missing",
    ]
    command += ["--deadline-s", "1", "--parent", str(caller.pid)]
    assert subprocess.run(command, env=environment, timeout=HANG_S).returncode == -signal.SIGTERM


def test_a_process_that_has_ended_is_not_killed(monkeypatch):
    """It may end between the last look and the kill."""
    with subprocess.Popen(["true"]) as ended:
        process = psutil.Process(ended.pid)
    monkeypatch.setattr(ending, "is_alive", lambda process: True)
    assert kill_those_left([process], timeout_s=0) == [process]


END = """
import atexit
from howmanygpus.measure.host.processes import end_without_collecting


class Cycle:
    def __init__(self):
        self.itself = self

    def __del__(self):
        print("collected")


cycle = Cycle()
atexit.register(print, "left the group")
if {spares}:
    end_without_collecting()
"""


@pytest.mark.parametrize("spares", [True, False])
def test_an_ending_process_runs_its_exit_handlers_and_collects_no_garbage(spares):
    environment = os.environ | {"PYTHONPATH": str(ROOT / "workflow" / "lib")}
    command = [sys.executable, "-c", END.format(spares=spares)]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert ended.stdout.split("\n")[:-1] == ["left the group", *([] if spares else ["collected"])]
