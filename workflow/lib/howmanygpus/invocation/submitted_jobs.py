"""
Take over the jobs of a call that was killed, because they go on in SLURM's queue without it.

Each submitted job leaves a note for each of its outputs, of its id and of its work. If a later call is to submit a job
for the same outputs, it waits for the older job instead. If the work has changed since, it cancels the older job.

The note also keeps how long the job took, because Snakemake's own record of a job on a cluster has another start: the
time at which it learned of the end or, from the second time on, the start of an earlier job.
"""

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from howmanygpus.config.findings import Finding, find_error
from howmanygpus.files import write_json_atomic
from howmanygpus.invocation.modules import find_own_name
from howmanygpus.paths import STATE
from howmanygpus.site.jobs import ledger
from howmanygpus.site.jobs.invocations import list_killed_calls, name_user
from howmanygpus.site.slurm import ALIVE, SlurmError, list_queue
from howmanygpus.study.largest.search import STUDY as SEARCHES
from howmanygpus.study.runs import Run

NOTES = STATE / "submitted"
OLDER: dict[str, str] = {}
"""The states of the jobs of killed calls when this call started, by job."""


@dataclass(frozen=True)
class SubmittedJob:
    """A submitted job.

    work: a hash of its parameters and resources. log: the file to which SLURM writes its output. seconds: from its
    start to its end, if it has succeeded and SLURM told both.
    """

    job: str
    work: str
    log: str
    seconds: float | None = None


def find_older_jobs(warn: Callable[[str], None]) -> list[Finding]:
    """Note the jobs of killed calls. Return an error if their work would be done twice.

    This is so if SLURM does not tell them, or if one of another user goes on, which only its user can take over.

    warn: prints how many of them go on. Call it before this call announces itself.
    """
    if not (names := tuple(call.name for call in list_killed_calls())):
        return []
    try:
        queue = list_queue("all", own=False)
    except SlurmError as error:
        problem = f"{error}, and a call in this folder was killed whose jobs may go on: their work would be done twice."
        return [find_error("", "", f"{problem} Give the call again when `squeue --me` answers.", "")]
    left = [job for job in queue if job.name.endswith(names)]
    if others := [job for job in left if job.is_alive and job.user != name_user(os.geteuid())]:
        owner, ids = others[0].user, " ".join(job.id for job in others if job.user == others[0].user)
        problem = (
            f"a call of {owner} in this folder was killed, and jobs of it go on, which only {owner} can take over or "
            f"cancel: their work would be done twice. Wait for their end (`squeue --jobs={ids.replace(' ', ',')}`), or "
            f"have {owner} give the call again or `scancel {ids}`."
        )
        return [find_error("", "", problem, "")]
    OLDER.update({job.id: job.state for job in left if job.is_alive or job.state == "COMPLETED"})
    if count := sum(state in ALIVE for state in OLDER.values()):
        warn(f"Jobs of a killed call that have not ended: {count}. Those that do steps of this call are waited for.")
    return []


def write_note(job: Any, job_id: str, log: Path) -> None:
    """Note that a job of Snakemake was submitted."""
    NOTES.mkdir(parents=True, exist_ok=True)
    note = asdict(SubmittedJob(job_id, _describe_work(job), str(log)))
    for output in job.output:
        write_json_atomic(_name_note(output), note)


def note_seconds(job: Any, seconds: float | None) -> None:
    """Note how long the job that was submitted for a job of Snakemake took; None if SLURM did not tell."""
    for path in map(_name_note, job.output):
        if seconds is not None and path.exists():
            write_json_atomic(path, json.loads(path.read_text()) | {"seconds": seconds})


def read_seconds(output: str, record: Any) -> float | None:
    """Return how long the job of an output took; None if it was a job of SLURM of which that is not known.

    record: Snakemake's of the output, which is right about jobs that were not submitted.
    """
    path = _name_note(output)
    if not path.exists():
        return max(0.0, record.endtime - record.starttime)
    return SubmittedJob(**json.loads(path.read_text())).seconds


def note_devices(job: Any, job_id: str) -> None:
    """Note what a submitted job with devices is billed for, in case that it cannot write its own record."""
    rule, params = "" if job.is_group() else find_own_name(job.rule), job.params
    size = {"num_nodes": job.resources.get("nodes")}
    if rule == "train":
        run = Run.from_path(job.wildcards.run)
        size |= {"device": run.device, "num_gpus": run.num_gpus}
        ledger.note_submission(ledger.RUN, run.path, size, job_id, framework=run.framework)
    elif rule == "observe_parity":
        request, shares = json.loads(params.request), ledger.share_by_seconds(json.loads(params.studies), {})
        size |= {"device": next(iter(request["cells"].values()))["device"], "num_gpus": job.threads}
        more = {"framework": request["framework"]["framework"], "shares": shares}
        ledger.note_submission(ledger.GATE, Path(job.output.record).stem, size, job_id, **more)
    elif rule == "probe_device":
        size |= {"device": job.wildcards.device, "num_gpus": json.loads(params.expected)["devices_per_node"]}
        shares = ledger.share_equally(params.studies)
        ledger.note_submission(ledger.PROBE, job.wildcards.device, size, job_id, shares=shares)
    elif rule in ("measure_allreduce", "measure_gradient_allreduce"):
        size |= {"device": json.loads(params.device)["device"], "num_gpus": int(job.wildcards.num_gpus)}
        shares = ledger.share_equally(params.studies)
        ledger.note_submission(ledger.ALLREDUCE, Path(job.output.record).stem, size, job_id, shares=shares)
    elif rule == "search_batch_size":
        request = json.loads(params.request)
        more = {"framework": request["framework"], "shares": ledger.share_equally(params.studies)}
        size |= {"device": request["device"], "num_gpus": 1}
        ledger.note_submission(SEARCHES, Path(job.output.record).stem, size, job_id, **more)


def find_older(job: Any) -> SubmittedJob | None:
    """Return the older job that does the work of a job of Snakemake; None if there is none, or if it did other work."""
    note = _read_note(job)
    if note is None or note.work != _describe_work(job):
        return None
    is_done = OLDER[note.job] == "COMPLETED" and all(Path(path).exists() for path in job.output)
    return note if is_done or OLDER[note.job] in ALIVE else None


def take_over(job: Any) -> SubmittedJob | None:
    """Return the older job as find_older does, but only once, because a job that fails is submitted anew."""
    if note := find_older(job):
        del OLDER[note.job]
    return note


def find_outdated(job: Any) -> str | None:
    """Return the id of an older job with the outputs of a job of Snakemake and other work; None if there is none."""
    note = _read_note(job)
    return note.job if note and OLDER[note.job] in ALIVE and note.work != _describe_work(job) else None


def _read_note(job: Any) -> SubmittedJob | None:
    path = _name_note(job.output[0]) if OLDER and job.output and not job.is_group() else None
    if path is None or not path.exists():
        return None
    note = SubmittedJob(**json.loads(path.read_text()))
    return note if note.job in OLDER else None


def _name_note(output: str) -> Path:
    return NOTES / f"{_hash([str(output)])}.json"


def _describe_work(job: Any) -> str:
    resources = {name: value for name, value in job.resources.items() if name != "tmpdir"}
    return _hash([job.rule.name, [repr(value) for value in job.params], sorted(map(repr, resources.items()))])


def _hash(value: list) -> str:
    return hashlib.sha256(json.dumps(value, default=str).encode()).hexdigest()
