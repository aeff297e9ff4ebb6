"""Shell scripts in place of the commands of SLURM."""

import os
from pathlib import Path


def pretend(monkeypatch, folder: Path, name: str, script: str | bytes) -> None:
    """Put a script first in the PATH. name: the command's."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(b"#!/bin/sh\n" + (script if isinstance(script, bytes) else script.encode()))
    (folder / name).chmod(0o755)
    if str(folder) not in os.environ["PATH"].split(os.pathsep):
        monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)


def show(printed: str) -> str:
    return f"cat <<'END'\n{printed}\nEND\n"


FORGOTTEN = "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1"
AWAY = "echo 'slurm_load_jobs error: Unable to contact slurm controller (connect failure)' >&2; exit 1"
