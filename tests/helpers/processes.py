"""Waiting for processes that are to end by themselves."""

import time
from collections.abc import Iterable
from contextlib import suppress

import psutil


def is_alive(process: psutil.Process) -> bool:
    """Return whether a process runs. An ended process is a zombie until its parent asks for its status."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def kill_those_left(processes: Iterable[psutil.Process], timeout_s: float) -> list[psutil.Process]:
    """Return the processes that did not end by themselves within `timeout_s` seconds, and kill them."""
    deadline = time.monotonic() + timeout_s
    while (alive := [process for process in processes if is_alive(process)]) and time.monotonic() < deadline:
        time.sleep(0.05)
    for process in alive:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    return alive
