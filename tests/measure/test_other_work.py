"""Test the measurement of what others do on a run's cores and GPUs, with processes that are really busy."""

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from hanging import HANG_S
from howmanygpus.measure.host import other_work
from howmanygpus.measure.host.other_work import OtherWork
from howmanygpus.measure.host.processes import PR_SET_CHILD_SUBREAPER, read_core_wait_s

SPIN = "while True: pass"


@pytest.fixture
def one_core():
    """Bind this process, which is the run, to one core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    yield min(before)
    os.sched_setaffinity(0, before)


def measure(*attempts, seconds=1.0):
    """Return the share that OtherWork finds for each attempt, all at the same time, while this process sleeps."""
    measured = [OtherWork(attempt, []) for attempt in attempts]
    for others in measured:
        others.start()
    time.sleep(seconds)
    for others in measured:
        others.stop()
    return [others.cpu_frac for others in measured]


@pytest.fixture
def sibling(one_core, tmp_path):
    """The id of a busy process on the core that is no descendant of this one, with the arguments of a rank."""
    script = f"import os, sys; open(sys.argv[1], 'w').write(str(os.getpid()))\n{SPIN}"
    words = [str(tmp_path / "pid"), "-m", other_work.MODULE, "--attempt", "results/attempts/a"]
    # A run that an earlier test launched in this process has made it the parent of all whose own has ended.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 0)
    # setsid leaves a process whose parent has ended.
    subprocess.run(["setsid", "--fork", sys.executable, "-c", script, *words], check=True)
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        time.sleep(0.01)
    pid = int((tmp_path / "pid").read_text())
    yield pid
    os.kill(pid, signal.SIGKILL)


def test_a_busy_process_of_another_run_is_seen(sibling):
    """What other programs have of the cores is in both shares."""
    cores = other_work.read_allowed_cores(other_work.list_run_processes("results/attempts/b"))
    process, started = psutil.Process(sibling), time.monotonic()
    before = process.cpu_times()
    of_another, own = measure("results/attempts/b", "results/attempts/a", seconds=3.0)
    after, elapsed_s = process.cpu_times(), time.monotonic() - started
    share = (after.user + after.system - before.user - before.system) / (elapsed_s * len(cores))
    assert share > 0.01, "the process was busy"
    assert of_another - own == pytest.approx(share, rel=0.3, abs=0.05)


def test_processes_of_the_run_are_not_others(sibling):
    """The sibling is no descendant of this process; its arguments tell that it belongs to the run."""
    assert sibling in {process.pid for process in other_work.list_run_processes("results/attempts/a")}
    assert sibling not in {process.pid for process in other_work.list_run_processes("results/attempts/b")}


def test_too_short_a_time_gives_no_share(one_core, monkeypatch):
    monkeypatch.setattr(other_work.time, "monotonic", iter((100.0, 100.0 + 0.9 * other_work.MIN_TIME_S)).__next__)
    assert measure("results/attempts/a", seconds=0.0) == [None]


@pytest.mark.parametrize(("pids", "expected"), [({1, 2}, None), (set(), None), ({0}, 0), ({0, 1, 2}, 2)])
def test_other_processes_on_the_gpus_are_counted_if_the_driver_knows_the_runs_own(monkeypatch, pids, expected):
    """0 stands for this process. A driver that does not name it would count the run's own as others."""
    seen = [SimpleNamespace(pid=pid or os.getpid()) for pid in pids]
    monkeypatch.setattr(other_work.pynvml, "nvmlInit", lambda: None)
    monkeypatch.setattr(other_work.pynvml, "nvmlDeviceGetHandleByUUID", lambda uuid: uuid)
    monkeypatch.setattr(other_work.pynvml, "nvmlDeviceGetComputeRunningProcesses", lambda handle: seen)
    others = OtherWork("results/attempts/a", ["GPU-1"])
    others.start()
    others.stop()
    assert others.gpu_processes == expected


@pytest.mark.parametrize("position", range(3), ids=["at the start", "in between", "at the end"])
def test_other_processes_on_the_gpus_count_whenever_they_are_seen(monkeypatch, position):
    """The largest number at one time counts, not their sum."""
    looks: list[set[int]] = [{os.getpid(), 3}, {os.getpid(), 4}, {os.getpid()}]
    looks[position] |= {1, 2}
    most, seen = len(looks[position]) - 1, threading.Semaphore(0)

    def look(uuids):
        seen.release()
        return looks.pop(0)

    monkeypatch.setattr(other_work, "list_gpu_pids", look)
    monkeypatch.setattr(other_work, "LOOK_EVERY_S", 0.0)
    others = OtherWork("results/attempts/a", ["GPU-1"])
    monkeypatch.setattr(others._stopped, "wait", lambda _: len(looks) < 2)
    others.start()
    for _ in range(2):
        assert seen.acquire(timeout=HANG_S)
    others.stop()
    assert not looks and others.gpu_processes == most


def test_processes_of_the_run_that_start_or_end_in_between_are_its_own(monkeypatch):
    own = [[SimpleNamespace(pid=1), SimpleNamespace(pid=2)], [SimpleNamespace(pid=1), SimpleNamespace(pid=3)]]
    monkeypatch.setattr(other_work, "list_run_processes", lambda marker: own.pop(0))
    monkeypatch.setattr(other_work, "read_allowed_cores", lambda processes: {0})
    monkeypatch.setattr(other_work, "read_cpu_s", lambda processes: 0.0)
    monkeypatch.setattr(other_work, "list_gpu_pids", lambda uuids: {1, 2} if own else {1, 3})
    others = OtherWork("results/attempts/a", ["GPU-1"])
    others.start()
    others.stop()
    assert others.gpu_processes == 0


def test_the_kernel_counts_how_long_a_thread_waits_for_its_core(sibling):
    """The two processes of the core take turns."""
    if not Path("/proc/thread-self/schedstat").exists():
        pytest.skip("this kernel does not count it")
    before, deadline = read_core_wait_s(), time.monotonic() + HANG_S
    while read_core_wait_s() == before and time.monotonic() < deadline:
        pass
    assert read_core_wait_s() > before
