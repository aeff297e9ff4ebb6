"""The reason of a crash quotes the process that failed first, also if a library has aborted it without a traceback."""

import json
import os
import subprocess
import sys

import pytest

from hanging import HANG_S
from helpers.messages import says
from howmanygpus.base.stderr_log import tee_stderr
from howmanygpus.measure.records import AttemptFolder
from howmanygpus.site.jobs.completing import TERMINATED
from howmanygpus.site.jobs.endings import explain_crashes, read_crash
from project import ROOT

CLOSED = "[/build/gloo/transport/tcp/pair.cc:598] Connection closed by peer [127.0.0.1]:58788"
UNCAUGHT = "[2026-11-24 02:50:47.66: E /build/operations.cc:697] [0]: Horovod background loop uncaught exception: "
SHUT_DOWN = "HorovodInternalError: Horovod has been shut down. This was caused by an exception on one of the ranks"
NAMED_BY_HOROVODRUN = """RuntimeError: Horovod detected that one or more processes exited with non-zero status, thus \
causing the job to be terminated. The first process to do so was:
Process name: {rank}
Exit code: {status}
"""
ABORTED = """terminate called after throwing an instance of 'gloo::IoException'
  what():  {words}
"""


@pytest.fixture
def explain(tmp_path):
    """Return a function from what was said, tracebacks by rank, and an exit status to the reason of the crash."""
    attempt = AttemptFolder(tmp_path)

    def write_and_explain(said, errors, exit_status=1):
        attempt.said.write_text(said)
        for rank, line in errors.items():
            attempt.error_of(rank).write_text(f"Traceback (most recent call last):\n  File x\n{line}\n")
        found = read_crash(attempt, exit_status)
        assert found["status"] == "crashed"
        return found["reason"]

    return write_and_explain


def label(rank: int, text: str) -> str:
    return "".join(f"[{rank}]<stderr>:{line}\n" for line in text.splitlines())


def test_the_killed_process_of_horovodrun_is_named_before_its_peers(explain):
    said = label(1, "Killed") + label(0, UNCAUGHT + CLOSED) + label(0, "Terminated")
    said += NAMED_BY_HOROVODRUN.format(rank=1, status=137)
    assert says(explain(said, {0: SHUT_DOWN}), "process 1", "first", "SIGKILL", "process 0", CLOSED)


def test_a_process_aborted_by_gloo_is_quoted(explain):
    timeout = "[/build/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 300000ms for recv operation"
    said = label(0, UNCAUGHT + CLOSED) + label(1, ABORTED.format(words=timeout)) + label(1, "Aborted")
    said += NAMED_BY_HOROVODRUN.format(rank=1, status=134)
    assert says(explain(said, {}), "process 1", "first", "SIGABRT", timeout)


def test_a_traceback_of_the_process_that_failed_first_is_quoted(explain):
    """Horovodrun names the process whose end it noticed first, which may have lost the other."""
    said = NAMED_BY_HOROVODRUN.format(rank=0, status=1)
    assert explain(said, {0: "ValueError: mine"}) == "ValueError: mine"


def test_a_task_of_srun_that_was_aborted_is_quoted(explain):
    said = ABORTED.format(words=CLOSED) + "srun: error: node2: task 1: Aborted (core dumped)\n"
    said += "srun: error: node1: task 0: Terminated\n"
    assert explain(said, {0: SHUT_DOWN}, 143) == f"process 1 failed first, Aborted: {CLOSED}"


def test_an_abort_is_quoted_if_nobody_names_the_process(explain):
    assert explain(ABORTED.format(words=CLOSED), {}, 134) == CLOSED


@pytest.mark.parametrize(
    "said", ["", "srun: error: node1: tasks 0-1: Terminated\n", NAMED_BY_HOROVODRUN.format(rank=0, status=143)]
)
def test_terminated_processes_are_explained_by_the_scheduler(explain, said):
    assert explain(said, {}, 143) in TERMINATED


def test_only_slurm_says_that_a_host_had_no_memory(tmp_path):
    """A framework says it of a device."""
    attempt = AttemptFolder(tmp_path)
    attempt.error_of(0).write_text("RuntimeError: CUDA error: out of memory")
    attempt.said.write_text("torch.OutOfMemoryError: CUDA out of memory. Out Of Memory\n")
    assert read_crash(attempt, 1)["status"] == "crashed"
    attempt.said.write_text("slurmstepd: error: Detected 1 oom-kill event in StepId=7.0.\n")
    assert read_crash(attempt, 1)["status"] == "host_out_of_memory"


def test_crashes_of_the_gate_are_explained_by_what_each_left_behind(tmp_path):
    crashes = []
    for number, line in enumerate(("ValueError: first", "KeyError: second")):
        attempt = AttemptFolder(tmp_path / f"crash{number}")
        attempt.path.mkdir()
        attempt.error_of(0).write_text(f"Traceback (most recent call last):\n{line}\n")
        crashes.append({"task": f"task {number}", "exit_status": 1, "folder": str(attempt.path)})
    (tmp_path / "crashes.json").write_text(json.dumps({"crashes": crashes}))
    text = explain_crashes(tmp_path / "crashes.json")
    assert text.splitlines()[1:] == ["  task 0 crashed: ValueError: first", "  task 1 crashed: KeyError: second"]
    assert explain_crashes(tmp_path / "none.json") == ""


def test_stderr_is_passed_on_even_if_it_cannot_be_stored(tmp_path, capfd):
    """A process whose lines nobody reads would wait for ever."""
    lines = 20_000
    program = f"import sys\nfor i in range({lines}): print('é' * 40, i, file=sys.stderr)\n"
    program += "sys.stderr.buffer.write(b'\\xff')"
    for path in (tmp_path / "said.txt", tmp_path / "no" / "folder"):
        child = subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE, env=os.environ)
        thread = tee_stderr(child.stderr, path)
        assert child.wait(timeout=HANG_S) == 0
        thread.join(timeout=HANG_S)
        assert not thread.is_alive() and capfd.readouterr().err.count("\n") == lines
    kept = (tmp_path / "said.txt").read_text()
    assert kept.count("\n") == lines and kept.endswith("\ufffd")


def test_stderr_is_kept_in_a_locale_without_its_characters(tmp_path):
    """The words of other programs need not be in the locale's encoding. An error would leave the writers blocked."""
    keep = "import pathlib, sys; from howmanygpus.base.stderr_log import tee_stderr as keep; "
    keep += f"keep(sys.stdin.buffer, pathlib.Path({str(tmp_path / 'said.txt')!r})).join()"
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    environment = os.environ | ascii_only | {"PYTHONPATH": str(ROOT / "workflow" / "lib")}
    lines = 20_000
    said = "é\n".encode() * lines + ABORTED.format(words=CLOSED).encode()
    ended = subprocess.run(
        [sys.executable, "-c", keep], input=said, env=environment, capture_output=True, timeout=HANG_S
    )
    assert ended.returncode == 0 and ended.stderr.count(b"\n") == lines + 2
    assert (tmp_path / "said.txt").read_text(encoding="utf-8").endswith(ABORTED.format(words=CLOSED))
    assert read_crash(AttemptFolder(tmp_path), 134)["reason"] == CLOSED
