"""No process outlives its parent, whenever the parent dies."""

import os
import signal
import subprocess
import sys

import psutil
import pytest

from ending import kill_those_left
from project import ROOT

SLOW_FORK = """
import os, time

def announce():
    print(os.getpid(), flush=True)
    time.sleep(1)

os.register_at_fork(after_in_child=announce)  # as libraries restart their threads in a child
import howmanygpus.train.input.workers
os.fork()
time.sleep(600)
"""
SLOW_START = """
import functools, os, subprocess, time
from howmanygpus.train.host.processes import die_with_parent

def prepare_child(parent):
    os.write(1, b"%d\\n" % os.getpid())
    time.sleep(1)
    die_with_parent(parent=parent)

subprocess.Popen(["sleep", "600"], preexec_fn=functools.partial(prepare_child, os.getpid()))
"""


@pytest.mark.parametrize("script", [SLOW_FORK, SLOW_START], ids=["loader's worker", "started program"])
def test_a_parent_that_dies_before_its_child_asks_for_the_signal_is_noticed(script):
    environment = os.environ | {"PYTHONPATH": str(ROOT / "workflow" / "lib")}
    parent = subprocess.Popen([sys.executable, "-c", script], env=environment, stdout=subprocess.PIPE, text=True)
    child = psutil.Process(int(parent.stdout.readline()))
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    assert not kill_those_left([child], timeout_s=120)
