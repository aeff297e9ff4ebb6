"""A new attempt at a run, and the command line of its launcher. This code ends before anything is measured."""

import json
import os
import time
from pathlib import Path

from howmanygpus.files import write_json_atomic
from howmanygpus.train.host.slurm import find_job_id
from howmanygpus.train.host.telling import VARIABLE
from howmanygpus.train.records import AttemptFolder
from howmanygpus.train.start.calls import find_birth, find_call, identify_folder
from howmanygpus.train.start.settling import OWNER, REPLACED, Owner, find_working, settle

ATTEMPTS, RUNS = Path("results/attempts"), Path("results/runs")


class DoneByAnotherError(Exception):
    """Another call of Snakemake, which is alive, does the run."""


def find_owner(placement: dict) -> Owner:
    """Return the owner of attempts of this process."""
    job = find_job_id() if placement.get("scheduler") == "slurm" else None
    host, pid = os.uname().nodename, os.getpid()
    folder = os.path.realpath(".")
    return Owner(folder, identify_folder(), os.environ.get(VARIABLE), job, host, pid, find_birth(pid))


def replace_older_attempts(run: str, owner: Owner) -> None:
    """Mark each older attempt at a run that is still running as replaced; the launcher then cancels its job.

    A killed Snakemake leaves such attempts behind. Raises DoneByAnotherError if the call of one is alive.
    """
    settle(ATTEMPTS / run)
    # A job that SLURM has put in the queue again is no other job.
    working = [found for found in find_working(run=run) if found[1].job is None or found[1].job != owner.job]
    for _, older in working:
        if older.call != owner.call and (call := find_call(older.call)):
            raise DoneByAnotherError(
                f"{RUNS / run}: {older.describe()} is doing this run, for another call of Snakemake: "
                f"{call.describe()}. Wait for the end of that call or press Ctrl-C in its terminal; then give this "
                "call again."
            )
    for path, _ in working:
        write_json_atomic(path / REPLACED, {"by": owner.describe()})


def create_attempt(run: str, spec: dict, placement: dict) -> AttemptFolder:
    """Create the folder of an attempt, and write its owner and the files that its launcher reads.

    run: path of the run below results/runs/. placement: see train.host.placement; the attempt is part of a job if it
    names a scheduler. Raises DoneByAnotherError if another call does the run.
    """
    owner = find_owner(placement)
    replace_older_attempts(run, owner)
    started = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    who = f"job{owner.job}" if owner.job else str(owner.pid)
    attempt = AttemptFolder(ATTEMPTS / run / f"{started}-{who}")
    attempt.path.mkdir(parents=True)
    owner.write(attempt.path / OWNER)
    write_json_atomic(attempt.spec, spec)
    write_json_atomic(attempt.placement, placement)
    return attempt


def build_launch_command(
    python: str, attempt: AttemptFolder, run: str, verdict_file: Path, parity: str, time_limit_min: float
) -> list[str]:
    """Return the command line of the launcher, which refuses a run that the parity gate forbids.

    verdict_file: the gate's verdict on the framework. parity: effect of a failed gate (`required`, `report`, `off`).
    """
    verdict = json.loads(verdict_file.read_text())
    options = {
        "--attempt": str(attempt.path),
        "--run-dir": str(RUNS / run),
        "--deadline-s": str(60 * time_limit_min),
        "--parity": verdict["status"],
    }
    if is_refused(verdict["status"], parity):
        options["--refuse"] = f"{verdict['reason']}; see {verdict_file}"
    return [python, "-m", "howmanygpus.train.start.launch", *(word for option in options.items() for word in option)]


def is_refused(verdict: str, parity: str) -> bool:
    """Whether a run is not trained: its framework cannot do it, or failed a gate that the study requires."""
    return verdict == "unsupported" or (verdict == "failed" and parity == "required")
