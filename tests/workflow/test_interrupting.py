"""Ctrl-C ends Snakemake, whatever Snakemake is doing at that moment."""

import signal
import threading
from pathlib import Path

import pytest

from howmanygpus.snakemake_patches.interrupting import Interruptible
from project import run_snakefile

SNAKEFILE = """
import os, signal
from howmanygpus.snakemake_patches import interrupting
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


def run(folder: Path, press: str, patch: str = "interrupting.apply()") -> str:
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


@pytest.fixture
def pressed_here():
    """Return a semaphore whose wait ends if this process gets SIGINT."""
    news = Interruptible(threading.Semaphore(0))
    before = signal.signal(signal.SIGINT, news.press)
    yield news
    signal.signal(signal.SIGINT, before)


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
