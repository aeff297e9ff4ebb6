"""A new attempt at a run, and the command line of its launcher. This code ends before anything is measured."""

import json
import os
import time
from contextlib import suppress
from pathlib import Path

from howmanygpus.base.messages import VARIABLE
from howmanygpus.files import write_json_atomic
from howmanygpus.measure.records import AttemptFolder
from howmanygpus.paths import ATTEMPTS, RUNS
from howmanygpus.site.jobs.completing import OWNER, REPLACED, Owner, complete_attempts, list_running_attempts
from howmanygpus.site.jobs.invocations import identify_folder, read_call, read_start_ticks
from howmanygpus.site.slurm import SlurmError, cancel, read_job_id

TIME_FORMAT = "%Y%m%dT%H%M%S"
"""The names of attempts and of the records of jobs begin with their start, in UTC."""

NOT_COMPARED = "; not compared: "
"""In a run's verdict before what the gate did not compare."""


OUTPUT = "output.log"
"""File of an attempt with all that it printed."""


class DoneByAnotherError(Exception):
    """Another call of Snakemake, which is alive, does the run."""


def make_owner(placement: dict) -> Owner:
    """Return the owner of attempts of this process."""
    job = read_job_id() if placement.get("scheduler") == "slurm" else None
    host, pid = os.uname().nodename, os.getpid()
    folder = os.path.realpath(".")
    return Owner(folder, identify_folder(), os.environ.get(VARIABLE), job, host, pid, read_start_ticks(pid))


def replace_older_attempts(run: str, owner: Owner) -> None:
    """Mark each older attempt at a run that is still running as replaced, and cancel its job if this is a job too.

    A killed Snakemake leaves such attempts behind. Raises DoneByAnotherError if the call of one is alive.
    """
    complete_attempts(ATTEMPTS / run)
    # A job that SLURM has put in the queue again is no other job.
    working = [found for found in list_running_attempts(run=run) if found[1].job is None or found[1].job != owner.job]
    for _, older in working:
        if older.call != owner.call and (call := read_call(older.call)):
            raise DoneByAnotherError(
                f"{RUNS / run}: {older.describe()} is doing this run, for another call of Snakemake: "
                f"{call.describe()}. Wait for the end of that call or press Ctrl-C in its terminal; then give this "
                "call again."
            )
    for path, older in working:
        write_json_atomic(path / REPLACED, {"by": owner.describe()})
        # A packed attempt has no job of its own: its allocation may do other runs, or be an interactive one.
        if owner.job and older.job:
            # If SLURM does not answer, both go on, and the later one to end is the run.
            with suppress(SlurmError):
                cancel([older.job])


def make_folder(run: str, name: str) -> AttemptFolder:
    """Make the folder of an attempt that starts now. name: of its job or process, or why it never began."""
    attempt = AttemptFolder(ATTEMPTS / run / f"{time.strftime(TIME_FORMAT, time.gmtime())}-{name}")
    attempt.path.mkdir(parents=True, exist_ok=True)
    return attempt


def create_attempt(run: str, spec: dict, placement: dict) -> AttemptFolder:
    """Create the folder of an attempt, and write its owner and the files that its launcher reads.

    run: path of the run below results/runs/. placement: see measure.host.placement; the attempt is part of a job if it
    names a scheduler. Raises DoneByAnotherError if another call does the run.
    """
    owner = make_owner(placement)
    replace_older_attempts(run, owner)
    attempt = make_folder(run, f"job{owner.job}" if owner.job else str(owner.pid))
    owner.write(attempt.path / OWNER)
    write_json_atomic(attempt.spec, spec)
    write_json_atomic(attempt.placement, placement)
    keep_output(attempt)
    return attempt


def keep_output(attempt: AttemptFolder) -> None:
    """Give the file to which this process prints a second name, because the next attempt at the run removes it.

    Does nothing if it prints to no file, or if the file system has no hard links.
    """
    with suppress(OSError):
        printed = Path("/proc/self/fd/1").readlink()
        if printed.is_file() and os.path.samestat(printed.stat(), os.fstat(1)):
            (attempt.path / OUTPUT).hardlink_to(printed)


def list_launch_options(
    attempt: AttemptFolder, run: str, time_limit_min: float, reference: dict | None, judged: tuple[str, str] = ("", "")
) -> list[str]:
    """Return the options of a launcher.

    reference: how the reference kernel is measured, see measure.around.reference; None if it is not. judged: see
    read_verdict; a user's program has no verdict.
    """
    options = {
        "--attempt": str(attempt.path),
        "--run-dir": str(RUNS / run),
        "--deadline-s": str(60 * time_limit_min),
        "--parity": judged[0],
        "--reference": json.dumps(reference) if reference else "",
        "--refuse": judged[1],
    }
    return [word for option in options.items() if option[1] for word in option]


def read_verdict(path: Path, parity: str, layout: tuple[int, int]) -> tuple[str, str]:
    """Return the gate's verdict on a framework for a run, and why it forbids the run; empty if it does not.

    parity: effect of a failed gate (`required`, `report`, `off`). layout: numbers of devices and of nodes of the run.
    """
    verdict = json.loads(path.read_text())
    refusal = f"{verdict['reason']}; see {path}" if is_refused(verdict["status"], parity) else ""
    return describe_verdict(verdict, layout), refusal


def describe_verdict(verdict: dict, layout: tuple[int, int]) -> str:
    """Return the status, after `passed` with the layout on which it stands, if another, and what was not compared."""
    text, seen = verdict["status"], {(row["devices"], row["nodes"]) for row in verdict.get("checks", [])}
    if text != "passed":
        return text
    if seen and layout not in seen:
        devices, nodes = max(seen, key=lambda each: each[::-1])
        text += f" on {devices} device{'s' if devices > 1 else ''}" + (f" of {nodes} nodes" if nodes > 1 else "")
    return text + (NOT_COMPARED + "; ".join(parts) if (parts := verdict.get("not_compared")) else "")


def prefer_interpreter(python: str | None) -> None:
    """Put an interpreter's folder first in PATH, where the program, and mpirun for it, are found."""
    if python:
        folder = str(Path(python).absolute().parent)
        os.environ["PATH"] = os.pathsep.join([folder, os.environ.get("PATH", os.defpath)])


def is_refused(verdict: str, parity: str) -> bool:
    """Whether a run is not trained: its framework cannot do it, or failed a gate that the study requires."""
    return verdict == "unsupported" or (verdict == "failed" and parity == "required")
