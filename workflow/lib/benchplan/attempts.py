"""
How attempts ended that could not say so themselves: after kill -9, or where a node was lost with all on it.

The scheduler knows. It is asked when Snakemake starts and when it ends, as the tables are made without it.
"""

import json
import subprocess
from pathlib import Path

from trainbench.records import write_json_atomic
from trainbench.slurm import PATIENCE_S, ask_for_job, explain

ATTEMPTS = Path("results/logs/train")
ALIVE = {"PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "SUSPENDED", "REQUEUED", "RESIZING", "STAGE_OUT"}


TERMINATED = ("exit status 143", "killed by SIGTERM")
"""Reasons of attempts that were told to end, while the controller was too busy to say why: 143 is 128 + SIGTERM."""


def ask_database(job_id: str) -> dict[str, str]:
    """What the accounting database knows of a job, in scontrol's words; empty where there is none."""
    command = ["sacct", "--allocations", "--noheader", "--parsable2", "--format=State,NodeList,Timelimit", "-j", job_id]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    if answer.returncode or not answer.stdout.strip():
        return {}
    state, nodes, limit = answer.stdout.splitlines()[-1].split("|")
    return {"JobId": job_id, "JobState": state.split()[0], "NodeList": nodes, "TimeLimit": limit}


def settle(attempts: Path = ATTEMPTS) -> list[Path]:
    """Complete the records of attempts whose job has ended without a word, or by a signal they could not explain.

    Returns the files of those that said nothing.
    """
    silent = []
    for path in sorted(attempts.rglob("attempt.json")):
        record = json.loads(path.read_text())
        job_id = (record.get("job") or {}).get("id")
        is_explained = record["status"] not in ("running", "interrupted") and record.get("reason") not in TERMINATED
        if is_explained or job_id is None or record.get("settled"):
            continue
        job = ask_for_job(job_id) or ask_database(job_id)
        if job.get("JobState") in ALIVE and not is_older_start(record, job):
            continue
        found = explain(job)
        if record["status"] == "running":
            silent.append(path)
            found = found or {"status": "killed", "reason": f"job {job_id} ended without a word"}
        write_json_atomic(path, record | found | {"settled": True})
    return silent


def is_older_start(record: dict, job: dict[str, str]) -> bool:
    """Whether the job that now runs or waits is another start of it: SLURM has put it in the queue again."""
    return int(job.get("Restarts", 0)) > record["job"]["restarts"]
