"""The end of a process is seen without asking again and again, on a core that may belong to a run."""

import os
import subprocess
import sys

import pytest

from howmanygpus.measure.host.processes import wait_for_end

SLEEPING = [sys.executable, "-c", "input()"]


@pytest.fixture
def child():
    with subprocess.Popen(SLEEPING, stdin=subprocess.PIPE) as child:
        yield child


def test_the_end_is_seen_and_the_exit_status_left_for_the_caller(child):
    assert wait_for_end(child.pid, 0.01) is False
    child.stdin.close()
    assert wait_for_end(child.pid, 60.0) is True
    assert child.wait() == 1


def test_a_timeout_may_be_longer_than_the_kernel_accepts(child):
    child.kill()
    assert wait_for_end(child.pid, 1e9) is True


@pytest.mark.parametrize("reason", [PermissionError(), AttributeError()])
def test_kernels_without_pidfd_are_detected(reason, child, monkeypatch):
    """Older kernels, and containers that forbid the call."""

    def refuse(pid):
        raise reason

    monkeypatch.setattr(os, "pidfd_open", refuse)
    assert wait_for_end(child.pid, 0.01) is None
