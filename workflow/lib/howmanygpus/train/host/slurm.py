"""Questions and commands to SLURM from a launcher that runs inside one of its jobs."""

import os
import re
import subprocess
import time
from typing import Any

from howmanygpus.train.host.placement import Placement
from howmanygpus.train.spec import LaunchSpec

PATIENCE_S = 20.0
"""How long to wait for a command of SLURM, in seconds; without a limit it waits long for a lost controller."""
AWAY_S, PAUSE_S = 300.0, 5.0
"""How long a run that begins waits for a controller that is away, and the time between two questions, in seconds."""
TIMES = {"SLURM_TIME_FORMAT": "standard"}
"""Variable for times in one format, whatever the user prefers. They are local, as those of this process."""
FORGOTTEN = "Invalid job id specified"
"""What scontrol says of a job that the controller does not know (ESLURM_INVALID_JOB_ID in slurm_errno.c)."""
FIELD = re.compile(r"(\S+?)=(.*?)(?=\s+\S+?=|\s*$)")
"""A field of a line of scontrol. A value may be empty or contain blanks, and more than one blank may follow it."""


def find_job_id() -> str | None:
    """Return the id of the job that this process is part of; None outside of jobs."""
    return os.environ.get("SLURM_JOB_ID")


def _call(command: list[str]) -> subprocess.CompletedProcess | None:
    """Call a command of SLURM, with times in TIMES; None if there is no such program, or if it takes too long."""
    options: dict[str, Any] = {"capture_output": True, "timeout": PATIENCE_S, "env": os.environ | TIMES}
    try:
        # SLURM keeps a name or a comment in the encoding of the shell that wrote it.
        return subprocess.run(command, text=True, errors="replace", **options)
    except (OSError, subprocess.TimeoutExpired):
        return None


def ask_or_fail(command: list[str]) -> str | None:
    """Return what a command of SLURM prints; None if it fails or takes too long."""
    answer = _call(command)
    return answer.stdout if answer and answer.returncode == 0 else None


def ask(command: list[str]) -> str:
    """Return what a command of SLURM prints; empty if it fails or takes too long."""
    return ask_or_fail(command) or ""


def parse_fields(line: str) -> dict[str, str]:
    """Return the fields of a line of scontrol. The first one of a name counts, because a remark may look like one."""
    return dict(reversed(FIELD.findall(line)))


def ask_for_job(job_id: str) -> dict[str, str] | None:
    """Return what the controller knows about a job, under scontrol's names.

    The result is empty if the controller has forgotten the job, and None if there is no answer.
    """
    answer = _call(["scontrol", "--oneliner", "show", "job", job_id])
    if answer and answer.returncode == 0:
        return parse_fields(answer.stdout)
    return {} if answer and FORGOTTEN in answer.stderr else None


def ask_patiently_for_job(job_id: str) -> dict[str, str]:
    """Return what ask_for_job returns, as soon as the controller answers. Raises RuntimeError after AWAY_S."""
    until = time.monotonic() + AWAY_S
    while (job := ask_for_job(job_id)) is None:
        if time.monotonic() > until:
            raise RuntimeError(f"SLURM's controller has not told the nodes of job {job_id} for {AWAY_S:.0f} s")
        time.sleep(PAUSE_S)
    return job


def to_seconds(moment: str) -> float | None:
    """Convert scontrol's local time to seconds since 1970; None for a time that is not known yet."""
    try:
        return time.mktime(time.strptime(moment, "%Y-%m-%dT%H:%M:%S"))
    except ValueError:
        return None


def describe_job(job_id: str) -> dict:
    """Describe a job: what it asked for, what it was given, how long it waited.

    queue_wait_s: from the time at which the job could have started to its start. If SLURM does not answer, `exclusive`
    is False, and everything else but the id None.
    """
    job = ask_for_job(job_id) or {}
    started, eligible = to_seconds(job.get("StartTime", "")), to_seconds(job.get("EligibleTime", ""))
    return {
        "id": job_id,
        "partition": job.get("Partition"),
        "nodes": job.get("NodeList"),
        "requested": job.get("TresPerNode"),
        "allocated": job.get("TRES") or job.get("AllocTRES"),
        "restarts": int(job.get("Restarts", 0)) if job else None,
        "exclusive": job.get("OverSubscribe") == "NO",
        "started_at": started,
        "queue_wait_s": None if started is None or eligible is None else max(0.0, started - eligible),
    }


def list_nodes(job: dict[str, str]) -> list[str]:
    """Return the names of a job's nodes, in the job's order."""
    command = ["scontrol", "show", "hostnames", job["NodeList"]]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE_S).stdout.split()


def restore_environment(spec: LaunchSpec, placement: Placement) -> dict[str, str]:
    """Return the variables by which mpirun finds the nodes of its job, which were removed from the job's environment.

    See howmanygpus.snakemake_patches.one_snakemake for the reason.
    """
    job_id = find_job_id()
    assert job_id is not None, "SLURM_JOB_ID is not set: mpirun must start inside a job of SLURM"
    nodes = ",".join(list_nodes(ask_patiently_for_job(job_id))[: spec.num_nodes])
    each = str(spec.devices_per_node) + (f"(x{spec.num_nodes})" if spec.num_nodes > 1 else "")
    return {
        **dict.fromkeys(("SLURM_NODELIST", "SLURM_JOB_NODELIST"), nodes),
        **dict.fromkeys(("SLURM_NNODES", "SLURM_JOB_NUM_NODES"), str(spec.num_nodes)),
        **{"SLURM_JOBID": job_id, "SLURM_TASKS_PER_NODE": each},
        "PRTE_MCA_plm_slurm_args": " ".join(placement.describe_step(spec.devices_per_node)),
    }
