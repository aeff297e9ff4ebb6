"""The records of attempts at runs that fail during a call, and records for attempts that never began."""

import json
import os
import shutil
import time
from pathlib import Path

from howmanygpus.files import find_files, read_each
from howmanygpus.measure.around.schema import write_record
from howmanygpus.measure.records import now
from howmanygpus.paths import ATTEMPTS
from howmanygpus.site.jobs.attempts import make_folder
from howmanygpus.site.jobs.completing import complete_attempts, list_running_attempts
from howmanygpus.site.jobs.endings import ask_for_end
from howmanygpus.study.program.study import complete_program_spec
from howmanygpus.study.runs import Run, complete_spec


def list_attempts(run: str) -> set[Path]:
    """Return the records of all attempts at a run."""
    return set(find_files(ATTEMPTS / run, "*/attempt.json"))


def find_new_attempt(run: str, older: set[Path]) -> tuple[Path, dict] | None:
    """Return folder and record of the newest attempt at a run; None if there is none besides the older ones."""
    if not list_attempts(run) - older:
        return None
    complete_attempts(ATTEMPTS / run)
    read = read_each(ATTEMPTS / run, "*/attempt.json", lambda path: (path, json.loads(path.read_text())))
    new = [(path.parent, record) for path, record in read if path not in older]
    return new[-1] if new else None


def record_refusal(run: str, settings: dict, inputs: dict[str, Path], reason: str) -> Path:
    """Record that SLURM refused the job of a run, as an attempt that ended at once, and return the record.

    inputs: `data`, `weights` and `verdict` of the rule `train`; none of them for a user's own program.
    """
    name = f"refused{time.monotonic_ns()}"
    return record_end(run, settings, inputs, name, {"status": "refused", "reason": reason})


def record_unstarted(run: str, settings: dict, inputs: dict[str, Path], job_id: str, words: str) -> Path | None:
    """Record that the job of a run ended before it had begun an attempt, and return the record.

    inputs: as in record_refusal. words: the job's last words, which are the reason if SLURM has none. Returns None if
    the job wrote a record of an attempt, or left the run to another call of Snakemake.
    """
    others = [owner for _, owner in list_running_attempts(run=run) if owner.job != job_id]
    if any((ATTEMPTS / run).glob(f"*-job{job_id}/attempt.json")) or others:
        return None
    crash = {"status": "crashed", "reason": f"job {job_id} ended before the run began: {words}"}
    return record_end(run, settings, inputs, f"job{job_id}", ask_for_end(job_id) or crash)


def record_blocked(run: str, settings: dict, inputs: dict[str, Path], reason: str) -> Path:
    """Record that a job that a run needs has failed, and return the record. Older such records are removed.

    inputs: as in record_refusal; they may not exist yet.
    """
    for older in (ATTEMPTS / run).glob("*-blocked*"):
        shutil.rmtree(older)
    name = f"blocked{time.monotonic_ns()}"
    return record_end(run, settings, inputs, name, {"status": "blocked", "reason": reason})


def record_end(run: str, settings: dict, inputs: dict[str, Path], name: str, ending: dict) -> Path:
    """Record an attempt that ended at once. ending: its status and reason."""
    is_judged = "verdict" in inputs and inputs["verdict"].exists()
    verdict = json.loads(inputs["verdict"].read_text())["status"] if is_judged else "not_checked"
    moment = now()
    record = {
        "spec": _complete(Run.from_path(run), settings, inputs),
        **ending,
        "pid": os.getpid(),
        "started_at": moment,
        "finished_at": moment,
        "parity": verdict,
    }
    attempt = make_folder(run, name)
    write_record(attempt.record, record)
    return attempt.record


def _complete(run: Run, settings: dict, inputs: dict[str, Path]) -> dict:
    if "program" in settings:
        return complete_program_spec(run, settings)
    return complete_spec(run, settings, str(inputs["data"].parent), str(inputs["weights"].with_suffix(".safetensors")))
