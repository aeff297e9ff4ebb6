"""
Tell why jobs wait in SLURM's queue: regularly for all, and at once for those that cannot start.

SLURM accepts a job that it will never start, for example one whose time limit exceeds that of its partition, and keeps
it in the queue. Without these messages it looks like any other that waits.
"""

import os
import re
import subprocess
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from howmanygpus.train.host.slurm import TIMES

PATIENCE_S = 20.0
"""Maximum time for an answer of squeue, in seconds."""
REPORT_S = 180.0
"""Time between two messages about all waiting jobs, in seconds."""
SEPARATOR = "|"
FORMAT = SEPARATOR.join(("%j", "%i", "%r", "%P", "%l", "%S", "%k"))
SHOWN = 3
"""Number of jobs that a message names."""

OBSTACLES = (
    (
        "PartitionTimeLimit",
        "the time limit of {limit} exceeds the longest job of the partition {partition}",
        "lower `time_limit_min` of the study (without a device, `runtime` of the profile), or choose another "
        "`partition`; `sinfo -o '%P %l'` lists the limits",
    ),
    (
        "PartitionNodeLimit",
        "the partition {partition} allows fewer nodes or more nodes per job than asked for",
        "choose another `num_gpus`, or another `partition`; `scontrol show partition {partition}` says more",
    ),
    (
        "BadConstraints",
        "no node of the partition {partition} has what is asked for",
        "compare `request`, `constraint`, cores and memory in the machine file with `sinfo -p {partition} -o "
        "'%n %G %f %c %m'`",
    ),
    (
        "ReqNodeNotAvail|Nodes required for job are DOWN|NodeDown|PartitionDown|PartitionInactive",
        "the nodes or the partition {partition} are down, drained or reserved",
        "`sinfo -R` says why; an administrator must return them",
    ),
    ("JobHeld|JobHoldMaxRequeue|requeued held", "the job is held", "`scontrol release JOB` releases it"),
    (
        r"(Assoc|QOS)Max\w*Per(Job|Node)|QOSMin|MaxMemPerLimit",
        "the job asks for more, or less, than the account or QOS allows one job",
        "change the request; `sacctmgr show qos` and `sacctmgr show assoc user=$USER` list the limits",
    ),
    (
        r"(Assoc|QOS)Grp((?!\w*Run)\w*Minutes|Wall)|QOSUsageThreshold",
        "the account's budget is used up",
        "`sshare -l` or your site's own command shows what is left",
    ),
    (
        "InvalidAccount|InvalidQOS|QOSNotAllowed|AccountNotAllowed",
        "the account or QOS may not use the partition {partition}",
        "change `slurm_account` of the profile, or `qos` of the machine file",
    ),
    (
        "ReservationDeleted|ReservationInvalid",
        "its reservation is over",
        "remove `--reservation` from `sbatch_options` of the machine file",
    ),
    ("DependencyNeverSatisfied", "a job that it depends on has failed", "cancel it"),
)
"""Reasons for which a job cannot start at present: a pattern of SLURM's word, its meaning, and the remedy.

SLURM's src/common/job_state_reason.c has all words. Limits of what a user, an account or a group has at the same time,
such as QOSMaxJobsPerUserLimit, QOSMaxGRESPerUser, MaxCpuPerAccount and AssocGrpCpuLimit, no longer apply when other
jobs end. A job that exceeds one by itself is refused before it is submitted, see plan.cluster.limits.
"""


@dataclass(frozen=True)
class WaitingJob:
    """A job in the queue. limit and starts_at are text, as squeue prints them."""

    id: str
    reason: str
    partition: str
    limit: str
    starts_at: str
    name: str

    @property
    def obstacle(self) -> str:
        """What keeps the job from ever starting, with the remedy; empty if it waits for its turn."""
        for pattern, meaning, remedy in OBSTACLES:
            if re.search(pattern, self.reason):
                return f"{meaning}; {remedy}".format(limit=self.limit, partition=self.partition)
        return ""


def parse_queue(printed: str, call: str) -> list[WaitingJob]:
    """Return the jobs of a call from squeue's lines in FORMAT. Jobs that SLURM has not considered yet are left out."""
    fields = [line.split(SEPARATOR, 6) for line in printed.splitlines() if line.count(SEPARATOR) >= 6]
    return [
        WaitingJob(job_id, reason, partition, limit, starts_at, _name_step(comment))
        for name, job_id, reason, partition, limit, starts_at, comment in fields
        if name.endswith(call) and reason != "None"
    ]


def list_waiting(call: str) -> list[WaitingJob] | None:
    """Return the waiting jobs of a call, whose names end with that of the call; None if SLURM does not answer."""
    command = ["squeue", "--noheader", "--me", "--states=PENDING", f"--format={FORMAT}"]
    options: dict[str, Any] = {"capture_output": True, "timeout": PATIENCE_S, "env": os.environ | TIMES}
    try:
        # SLURM keeps the name of a job in the encoding of the shell that submitted it.
        answer = subprocess.run(command, text=True, errors="replace", **options)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_queue(answer.stdout, call) if answer.returncode == 0 else None


def describe_obstacles(jobs: Iterable[WaitingJob]) -> list[str]:
    """Return a message for each obstacle, with the jobs that it keeps from starting."""
    blocked = defaultdict(list)
    for job in jobs:
        if job.obstacle:
            blocked[job.reason, job.obstacle].append(job)
    return [
        f"SLURM cannot start {_name(found)}, as things are: {reason}: {obstacle}"
        for (reason, obstacle), found in blocked.items()
    ]


def describe_queue(jobs: list[WaitingJob]) -> str:
    """Return one line about all waiting jobs: how many wait for which of SLURM's reasons."""
    reasons = Counter(job.reason + (" (cannot start)" if job.obstacle else "") for job in jobs)
    counted = ", ".join(f"{count} for {reason}" for reason, count in reasons.most_common())
    starts = [job.starts_at for job in jobs if job.starts_at[:1].isdigit()]
    expected = f"; SLURM expects the first to start at {min(starts)}" if starts else ""
    return f"{_count(jobs)} in SLURM's queue: {counted}{expected}"


def _name_step(comment: str) -> str:
    """Return rule and wildcards from the comment that the plugin gives a job."""
    return comment.removeprefix("rule_").replace("_wildcards_", " ", 1)


def _count(jobs: list[WaitingJob]) -> str:
    return "1 job waits" if len(jobs) == 1 else f"{len(jobs)} jobs wait"


def _name(jobs: list[WaitingJob]) -> str:
    named = ", ".join(f"{job.id} ({job.name})" for job in jobs[:SHOWN])
    more = f" and {len(jobs) - SHOWN} more" if len(jobs) > SHOWN else ""
    return f"job{'s' if len(jobs) > 1 else ''} {named}{more}"


class Watch:
    """Looks at the queue and decides what is new. say: prints a message."""

    def __init__(self, say: Callable[[str], None]):
        self._say, self._told, self._reported_at = say, set[tuple[str, str]](), time.monotonic()

    def look(self, jobs: list[WaitingJob]) -> None:
        """Report the obstacles of jobs at once, each of them once, and from time to time why all jobs wait."""
        # SLURM may name the same obstacle differently from one look to the next.
        for message in describe_obstacles(job for job in jobs if (job.id, job.obstacle) not in self._told):
            self._say(message)
        self._told |= {(job.id, job.obstacle) for job in jobs}
        if time.monotonic() - self._reported_at >= REPORT_S:
            self._reported_at = time.monotonic()
            if jobs:
                self._say(describe_queue(jobs))


def watch_queue(call: str, every_s: float, say: Callable[[str], None]) -> None:
    """Look at the jobs of a call every few seconds, in a thread that ends with this process."""
    watch = Watch(say)

    def look_again() -> None:
        while True:
            time.sleep(every_s)
            if (jobs := list_waiting(call)) is not None:
                watch.look(jobs)

    threading.Thread(target=look_again, name="queue", daemon=True).start()
