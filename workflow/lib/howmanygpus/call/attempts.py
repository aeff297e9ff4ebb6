"""The attempts at runs that fail during a call, as their records tell them, and the record of a refused one."""

import json
import os
import time
from datetime import UTC, datetime
from pathlib import Path

from howmanygpus.plan.runs import Run, complete_spec
from howmanygpus.train.schema import write_record
from howmanygpus.train.start.settling import ATTEMPTS, settle


def list_attempts(run: str) -> set[Path]:
    """Return the records of all attempts at a run."""
    return set((ATTEMPTS / run).glob("*/attempt.json"))


def find_new_attempt(run: str, older: set[Path]) -> tuple[Path, dict] | None:
    """Return folder and record of the newest attempt at a run; None if there is none beside the older ones."""
    if not (new := list_attempts(run) - older):
        return None
    settle(ATTEMPTS / run)
    return max(new).parent, json.loads(max(new).read_text())


def record_refusal(run: str, settings: dict, inputs: dict[str, Path], reason: str) -> Path:
    """Record that SLURM refused the job of a run, as an attempt that ended at once, and return the record.

    inputs: `data`, `weights` and `verdict` of the rule `train`.
    """
    weights = str(inputs["weights"].with_suffix(".safetensors"))
    now = datetime.now(UTC).isoformat(timespec="seconds")
    record = {
        "spec": complete_spec(Run.from_path(run), settings, str(inputs["data"].parent), weights),
        "status": "refused",
        "reason": reason,
        "pid": os.getpid(),
        "started_at": now,
        "finished_at": now,
        "parity": json.loads(inputs["verdict"].read_text())["status"],
    }
    folder = ATTEMPTS / run / f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-refused{time.monotonic_ns()}"
    folder.mkdir(parents=True)
    write_record(folder / "attempt.json", record)
    return folder / "attempt.json"
