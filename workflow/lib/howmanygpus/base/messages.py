"""Messages of a job on the screen of the call of Snakemake that started it."""

import os
from pathlib import Path

from howmanygpus.paths import STATE

VARIABLE = "HOWMANYGPUS_CALL"
"""The environment variable by which a job knows the name of its call."""
TOLD = STATE / "told"
"""Folder with a file for each call, in which its jobs leave the messages for its screen."""


def print_to_call(message: str, told: Path = TOLD) -> None:
    """Print a message on the screen of this process's call; see site.jobs.invocations.print_job_messages."""
    path = told / os.environ.get(VARIABLE, "")
    if path.is_file():
        with open(path, "a") as file:
            file.write(f"{message}\n")
