"""A new attempt at a run, and the command line of its launcher. What is here ends before anything is measured."""

import json
import os
import time
from pathlib import Path

from howmanygpus.files import write_json_atomic
from howmanygpus.train.records import AttemptFolder

ATTEMPTS, RUNS = Path("results/attempts"), Path("results/runs")


def create_attempt(run: str, spec: dict, placement: dict) -> AttemptFolder:
    """Create the folder of an attempt and write what its launcher reads.

    run: path of the run below results/runs/. placement: see train.host.placement; empty on this machine, else the
    attempt is part of a job.
    """
    started = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    who = f"job{os.environ['SLURM_JOB_ID']}" if placement else str(os.getpid())
    attempt = AttemptFolder(ATTEMPTS / run / f"{started}-{who}")
    attempt.path.mkdir(parents=True)
    write_json_atomic(attempt.spec, spec)
    write_json_atomic(attempt.placement, placement)
    return attempt


def build_launch_command(
    python: str, attempt: AttemptFolder, run: str, verdict_file: Path, parity: str, time_limit_min: float
) -> list[str]:
    """The command line of the launcher, which refuses a run that the parity gate forbids.

    verdict_file: the gate's verdict on the framework. parity: what a failed gate does (`required`, `report`, `off`).
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
