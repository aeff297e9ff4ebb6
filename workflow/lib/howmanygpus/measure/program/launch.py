"""Start the processes of a run of a user's program; measure.launch.launch does the work."""

import os
from pathlib import Path

from howmanygpus.files import sha256_of_file
from howmanygpus.measure.launch.launch import RunModule, main
from howmanygpus.measure.launch.rendezvous import reserve_port
from howmanygpus.measure.program.spec import ProgramSpec
from howmanygpus.measure.records import AttemptFolder


def verify_files(spec: ProgramSpec) -> dict:
    """Compare the program's files with the plan, because a run must not start with other files than planned."""
    for path, planned in spec.program["files"].items():
        if not Path(path).is_file() or sha256_of_file(Path(path)) != planned:
            raise ValueError(f"{path} has changed since this run was planned; call snakemake again")
    return {}


def collect_nothing(spec: ProgramSpec, attempt: AttemptFolder) -> None:
    """A program's quality is in its events, so that there are no predictions to merge."""


PROGRAM = RunModule("howmanygpus.measure.program.process", verify_files, collect_nothing)


if __name__ == "__main__":
    # Processes that meet through a job's nodes replace this rendezvous, which is one on this machine.
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(reserve_port())}
    main(ProgramSpec.read, PROGRAM)
