"""
A run during which everything was frozen is no measurement.

SLURM may freeze a job's cgroup, as `docker pause` does, and a virtual machine may be paused. No process gets a signal
then; all of them, with the sampler, go on later.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pandas as pd
import pytest

from howmanygpus.measure.host import telemetry
from howmanygpus.measure.host.telemetry import (
    FROZEN_S,
    Telemetry,
    check_frozen,
    compute_longest_gap,
    get_gaps_path,
    get_node_path,
)
from howmanygpus.report.outcomes import has_failed
from project import ROOT

SAMPLER = """
import select, sys
from pathlib import Path
from howmanygpus.measure.host.telemetry import Telemetry, get_node_path

with Telemetry(get_node_path(Path(sys.argv[1]), 0), list, 0.0, interval_s=0.05):
    print("samples", flush=True)
    select.select([sys.stdin], [], [])
"""
"""A sampler that ends when its input ends. A signal interrupts its wait, as it does that of the launcher."""
FREEZERS = {Path("/sys/fs/cgroup/freezer"): ("freezer.state", "FROZEN", "THAWED")}
FREEZERS |= {Path("/sys/fs/cgroup"): ("cgroup.freeze", "1", "0")}
"""Where version 1 and version 2 of cgroups have their freezer: its file, and what is written to freeze and to thaw."""


@pytest.fixture
def sampler(tmp_path):
    environment = os.environ | {"PYTHONPATH": str(ROOT / "workflow" / "lib")}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": environment}
    with subprocess.Popen([sys.executable, "-c", SAMPLER, str(tmp_path)], **pipes) as child:
        assert child.stdout.readline() == "samples\n"
        yield child
        child.kill()


def end(sampler):
    time.sleep(0.2)
    sampler.communicate("")
    assert sampler.returncode == 0


@pytest.fixture
def freezer():
    """Return a function that freezes or thaws a process."""
    for folder, words in FREEZERS.items():
        name, frozen, thawed = words
        group = folder / f"howmanygpus-test-{os.getpid()}"
        try:
            group.mkdir()
        except OSError:
            continue
        if (group / name).exists():
            break
        group.rmdir()
    else:
        pytest.skip("this user may not freeze a cgroup")

    def freeze(pid, is_frozen):
        (group / "cgroup.procs").write_text(str(pid))
        (group / name).write_text(frozen if is_frozen else thawed)

    yield freeze
    with suppress(OSError):
        (group / name).write_text(thawed)
    deadline = time.monotonic() + 10
    while group.exists() and time.monotonic() < deadline:
        with suppress(OSError):
            group.rmdir()


def test_a_frozen_cgroup_leaves_a_gap(sampler, freezer, tmp_path):
    began_at = time.time()
    freezer(sampler.pid, True)
    time.sleep(FROZEN_S + 0.5)
    freezer(sampler.pid, False)
    end(sampler)
    assert FROZEN_S < compute_longest_gap(tmp_path, began_at) < 60
    assert compute_longest_gap(tmp_path, time.time()) == 0.0, "it ended before that"


def test_a_sampler_that_was_stopped_alone_leaves_none(sampler, tmp_path):
    """Ctrl-Z stops the launcher and not the processes of the run, which tell by themselves if they are stopped."""
    sampler.send_signal(signal.SIGSTOP)
    time.sleep(FROZEN_S + 0.5)
    sampler.send_signal(signal.SIGCONT)
    end(sampler)
    assert compute_longest_gap(tmp_path, 0.0) == 0.0


@pytest.mark.parametrize("has_core", [True, False])
def test_a_sampler_that_waits_for_its_core_leaves_none(tmp_path, monkeypatch, has_core):
    class LateEvent(threading.Event):
        def wait(self, timeout=None):
            time.sleep(FROZEN_S + 0.2)
            return True

    waited_s = iter([0.0, 0.0 if has_core else FROZEN_S + 0.1])
    monkeypatch.setattr(telemetry.threading, "Event", LateEvent)
    monkeypatch.setattr(telemetry, "read_core_wait_s", lambda: next(waited_s))
    sampled = Telemetry(get_node_path(tmp_path, 0), list, 0.0, interval_s=0.001)
    monkeypatch.undo()
    monkeypatch.setattr(telemetry, "read_core_wait_s", lambda: next(waited_s))
    with sampled:
        pass
    assert (compute_longest_gap(tmp_path, 0.0) > 0) == has_core


COMPLETED = {"status": "completed", "reason": "", "init_s": 10.0, "measured_s": 60.0}


@pytest.mark.parametrize(
    ("outcome", "gap_at", "status"),
    [
        pytest.param(COMPLETED, 130.0, "suspended", id="while it trained"),
        pytest.param(COMPLETED, 105.0, "completed", id="before it trained"),
        pytest.param(COMPLETED, None, "completed", id="never"),
        pytest.param(COMPLETED | {"init_s": None}, 105.0, "suspended", id="nobody knows when it began"),
        pytest.param(COMPLETED | {"status": "diverged"}, 130.0, "diverged", id="no rate"),
    ],
)
def test_a_run_that_was_frozen_while_it_trained_is_no_measurement(tmp_path, outcome, gap_at, status):
    """Its processes started at 100 s."""
    meeting = tmp_path / "processes-1"
    meeting.mkdir()
    if gap_at:
        get_gaps_path(get_node_path(meeting, 3)).write_text(f"{gap_at} 20.5\n")
    found = check_frozen(outcome, tmp_path, started_at=100.0)
    assert found["status"] == status
    for word in ("20.5 s", "retry_runs.py --status suspended"):
        assert (word in found["reason"]) == (status == "suspended")


def test_a_suspended_run_does_not_count_against_its_configuration():
    assert list(has_failed(pd.Series(["suspended", "clock_mismatch", "completed"]))) == [False, True, False]
