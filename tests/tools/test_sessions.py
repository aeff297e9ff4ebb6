"""A command in a session of its own ends by itself or at a deadline, and leaves no process behind."""

import signal
import subprocess
import sys
import time

import psutil
import pytest

from howmanygpus_tools.sessions import defer_interrupts, explain_end, run_until

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


class InterruptedAtStart(subprocess.Popen):
    """A command that has just started when a signal arrives."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        signal.raise_signal(signal.SIGINT)


class InterruptedInLock(subprocess.Popen):
    """A command for which its parent has just taken the lock of its exit status when a signal arrives."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self._waitpid_lock = Lock(self._waitpid_lock)


class Lock:
    def __init__(self, lock):
        self._lock, self._is_new = lock, True

    def acquire(self, *arguments) -> bool:
        has_lock = self._lock.acquire(*arguments)
        if self._is_new:
            self._is_new = False
            signal.raise_signal(signal.SIGINT)
        return has_lock

    def release(self) -> None:
        self._lock.release()

    def __enter__(self):
        # A lock that is held for ever fails the test.
        assert self._lock.acquire(timeout=60)

    def __exit__(self, *_):
        self._lock.release()


@pytest.mark.parametrize("kind", [InterruptedAtStart, InterruptedInLock])
def test_a_signal_ends_a_command_wherever_its_parent_is(monkeypatch, kind):
    children = []

    def start(*arguments, **options):
        children.append(process := object.__new__(kind))
        process.__init__(*arguments, **options)
        return process

    monkeypatch.setattr(subprocess, "Popen", start)
    saved = []

    def handle(number, frame):
        saved.append(number)
        signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, handle)
    try:
        with pytest.raises(KeyboardInterrupt):
            run_until(time.monotonic() + 600, ["sleep", "600"])
        assert saved == [signal.SIGINT] and signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
    (child,) = children
    assert child.returncode == -signal.SIGINT


def interrupt(number, frame):
    raise KeyboardInterrupt


def test_a_signal_after_the_block_is_raised_at_once_also_while_handlers_are_restored(monkeypatch):
    before = signal.signal(signal.SIGTERM, interrupt)
    restored = []

    def restore(number, handler):
        restored.append(number)
        if handler is interrupt:
            signal.raise_signal(signal.SIGTERM)
        return set_handler(number, handler)

    set_handler = signal.signal
    try:
        with pytest.raises(KeyboardInterrupt), defer_interrupts() as interrupts:
            monkeypatch.setattr(signal, "signal", restore)
        monkeypatch.undo()
        assert restored and interrupts == []
        with pytest.raises(KeyboardInterrupt), defer_interrupts() as interrupts:
            signal.raise_signal(signal.SIGTERM)
            assert len(interrupts) == 1
    finally:
        signal.signal(signal.SIGTERM, before)


def test_an_interrupt_is_not_lost_if_the_block_fails():
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        with pytest.raises(KeyboardInterrupt), defer_interrupts():
            signal.raise_signal(signal.SIGTERM)
            raise FileNotFoundError
    finally:
        signal.signal(signal.SIGTERM, before)


def test_handlers_are_those_of_before_once_a_command_has_ended(tmp_path):
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    assert run(tmp_path, "") == 0
    assert before == {number: signal.getsignal(number) for number in before}


@pytest.mark.parametrize(("status", "words"), [(1, "with status 1"), (-9, "killed by SIGKILL")])
def test_an_end_is_explained_by_its_status(status, words):
    assert words in explain_end("Snakemake", status)
