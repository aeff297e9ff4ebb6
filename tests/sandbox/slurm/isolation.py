"""
Let a process have a folder /etc/slurm of its own, so that several test clusters can run on a host at once.

Steps of jobs read the configuration of their cluster from there if their environment names no other. A mount namespace
shows one process and its children another folder in this place.
"""

import ctypes
import os
import subprocess
from contextlib import suppress
from pathlib import Path

import forking
from slurm.cluster import SYSTEM_CONF

CLONE_NEWNS = 0x00020000
"""From linux/sched.h. Python has os.unshare() since 3.12 only."""


def isolate_configuration(folder: Path) -> bool:
    """Show `folder` as /etc/slurm to this process and its new children. Return whether the kernel allows it."""
    if os.getuid():
        return False
    SYSTEM_CONF.mkdir(exist_ok=True)
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNS):
        return False
    with suppress(OSError, subprocess.CalledProcessError):
        # Otherwise other processes would see this mount.
        for command in (["--make-rprivate", "/"], ["--bind", str(folder), str(SYSTEM_CONF)]):
            subprocess.run(["mount", *command], check=True, capture_output=True)
        forking.start_anew()
        return True
    return False
