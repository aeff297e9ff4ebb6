"""Ctrl-C and SIGTERM end Snakemake, whatever Snakemake is doing at that moment, and without a traceback."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from forking import listen_to_ctrl_c
from hanging import HANG_S
from howmanygpus.invocation.interrupting import ENDING, INTERRUPTIONS, Interruptible
from project import ROOT, run_snakefile

SNAKEFILE = """
import os, signal
from howmanygpus.invocation import interrupting
from snakemake.logging import logger

was_pressed = False

def press():
    global was_pressed
    if not was_pressed:
        was_pressed = True
        os.kill(os.getpid(), signal.SIGINT)

def log_and_press():
    logger.handlers[0].flush = press
    logger.info("a message")

def press_in_a_function(wildcards, input):
    if os.path.exists("first.txt"):
        {press}
    return 1

onstart:
    {patch}

rule all:
    input: "third.txt"

rule first:
    output: "first.txt"
    shell: "touch {{output}}"

rule second:
    input: "first.txt"
    output: "second.txt"
    resources: mem_mb=press_in_a_function
    shell: "touch {{output}}"

rule third:
    input: "second.txt"
    output: "third.txt"
    shell: "touch {{output}}"
"""
PRESSES = {"a rule's function": "press()", "a log message": "log_and_press()"}
"""The place where Ctrl-C is pressed after the first rule has run, and the code that presses it."""


PRESSED_AGAIN = """
import os
from howmanygpus.invocation import interrupting

os.environ.setdefault("PRESSED", str(os.getpid()))

onstart:
    {patch}

rule all:
    output: "done.txt"
    shell:
        "kill -INT $PRESSED; "
        "until grep -q 'Terminating processes' .snakemake/log/*.log; do sleep 0.1; done; "
        "kill -INT $PRESSED; sleep 2; kill -INT $PRESSED; sleep 2; touch {{output}}"
"""
"""Here the job presses Ctrl-C, and two more times while Snakemake waits for the job's end."""
PRESSED_WHILE_PLANNING = """
import os, signal
from howmanygpus.invocation import interrupting

interrupting.end_without_traceback()
os.kill(os.getpid(), signal.SIGINT)

rule all:
    output: "done.txt"
    shell: "touch {output}"
"""
TERMINATED_IN_A_LOCK = """
import os, signal
from howmanygpus.invocation import interrupting
from snakemake.scheduling.job_scheduler import JobScheduler

upstream = JobScheduler.update_available_resources

def terminate(scheduler, jobs):
    os.kill(os.getpid(), signal.SIGTERM)
    upstream(scheduler, jobs)

JobScheduler.update_available_resources = terminate

onstart:
    {patch}

rule all:
    input: "second.txt"

rule first:
    output: "first.txt"
    shell: "touch {{output}}"

rule second:
    input: "first.txt"
    output: "second.txt"
    shell: "touch {{output}}"
"""
"""Here SIGTERM arrives while Snakemake's scheduler holds its lock."""
APPLY = "interrupting.note_signals(workflow.scheduler)"


def run(folder: Path, press: str, patch: str = APPLY) -> str:
    """Run Snakemake and return what it prints."""
    return run_snakefile(folder, SNAKEFILE.format(press=press, patch=patch), "--scheduler", "greedy").stderr


@pytest.mark.parametrize("place", PRESSES)
def test_ctrl_c_is_not_lost_in(tmp_path, place):
    assert "Terminating processes on user request" in run(tmp_path, PRESSES[place])
    assert (tmp_path / "first.txt").exists() and not (tmp_path / "third.txt").exists()


def test_ctrl_c_reaches_snakemake_if_the_tests_themselves_ignore_it(tmp_path):
    """A background job of a shell script and some CI runners ignore SIGINT."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert "Terminating processes on user request" in run(tmp_path, "press()")
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("place", PRESSES)
def test_snakemake_alone_loses_it_in(tmp_path, place):
    """If this fails, Snakemake no longer needs the patch."""
    assert "Terminating processes on user request" not in run(tmp_path, PRESSES[place], patch="pass")


def test_a_second_ctrl_c_is_answered_by_one_line_while_jobs_are_stopped(tmp_path):
    finished = run_snakefile(tmp_path, PRESSED_AGAIN.format(patch=APPLY), "--scheduler", "greedy")
    assert "Terminating processes on user request" in finished.stderr
    assert finished.stderr.count(ENDING.decode()) == 2 and "Traceback" not in finished.stderr, finished.stderr
    assert finished.returncode == 1


def test_snakemake_alone_answers_it_by_a_traceback(tmp_path):
    """If this fails, Snakemake no longer needs this part of the patch."""
    assert "Traceback" in run_snakefile(tmp_path, PRESSED_AGAIN.format(patch="pass"), "--scheduler", "greedy").stderr


def test_ctrl_c_while_snakemake_plans_prints_no_traceback(tmp_path):
    finished = run_snakefile(tmp_path, PRESSED_WHILE_PLANNING, "--scheduler", "greedy")
    assert "Interrupted by Ctrl-C." in finished.stderr and "Traceback" not in finished.stderr, finished.stderr
    assert finished.returncode == -signal.SIGINT and not (tmp_path / "done.txt").exists()


def test_sigterm_is_obeyed_while_the_scheduler_holds_its_lock(tmp_path):
    finished = run_snakefile(tmp_path, TERMINATED_IN_A_LOCK.format(patch=APPLY), "--scheduler", "greedy")
    assert "Will exit after finishing currently running jobs" in finished.stderr and finished.returncode == 1
    assert (tmp_path / "first.txt").exists() and not (tmp_path / "second.txt").exists()


def test_snakemake_alone_waits_without_end(tmp_path):
    """If this fails, Snakemake no longer needs this part of the patch."""
    with pytest.raises(subprocess.TimeoutExpired):
        run_snakefile(tmp_path, TERMINATED_IN_A_LOCK.format(patch="pass"), "--scheduler", "greedy", timeout_s=10)


@pytest.fixture
def pressed_here():
    """Return a semaphore whose wait ends if this process gets SIGINT."""
    news = Interruptible(threading.Semaphore(0))
    before = signal.signal(signal.SIGINT, news.press)
    yield news
    signal.signal(signal.SIGINT, before)
    INTERRUPTIONS.clear()


def test_ctrl_c_ends_the_wait_for_news(pressed_here):
    pressed_here.release()
    pressed_here.acquire()
    threading.Timer(0.1, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        pressed_here.acquire()


def test_a_second_ctrl_c_acts_at_once(pressed_here):
    signal.raise_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_sigterm_ends_the_wait_once_and_stops_starting_jobs():
    stopped, semaphore = [], threading.Semaphore(0)
    news = Interruptible(semaphore, lambda: stopped.append(1))
    news.terminate()
    news.acquire()
    semaphore.release()
    news.acquire()
    assert stopped == [1]
    INTERRUPTIONS.clear()


SLOW_TO_END = """#!{python}
import signal, time

signal.signal(signal.SIGINT, lambda *_: pressed.append(1))
pressed = []
with open("calls", "a") as calls:
    calls.write("one call\\n")
while not pressed:
    time.sleep(0.05)
raise SystemExit(1)
"""
"""A program in the place of Snakemake that notes its start and ends as Snakemake does after Ctrl-C."""


@pytest.mark.parametrize("shell", ["bash", "dash"])
def test_ctrl_c_ends_make_demo_without_another_call(tmp_path, shell):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} not found")
    for folder in (".venv/bin", "envs"):
        (tmp_path / folder).mkdir(parents=True)
    for file in ("envs/workflow.txt", ".venv/installed"):
        (tmp_path / file).touch()
    program = tmp_path / ".venv/bin/snakemake"
    program.write_text(SLOW_TO_END.format(python=sys.executable))
    program.chmod(0o755)
    command = ["make", "--old-file=.venv/installed", "--file", str(ROOT / "Makefile"), "demo"]
    command += [f"SHELL={shutil.which(shell)}"]
    process = subprocess.Popen(command, cwd=tmp_path, start_new_session=True, preexec_fn=listen_to_ctrl_c)
    deadline = time.monotonic() + HANG_S
    while not (tmp_path / "calls").exists():
        assert time.monotonic() < deadline, "the program was not called"
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    try:
        process.wait(timeout=HANG_S)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode != 0 and (tmp_path / "calls").read_text() == "one call\n"
