"""
Tell why jobs wait in SLURM's queue: regularly for all, and at once for those that cannot start.

SLURM accepts a job that it will never start, for example one whose time limit exceeds that of its partition, and keeps
it in the queue. Without these messages it looks like any other that waits.
"""

import re
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime

from howmanygpus.site.slurm import Job, SlurmError, list_queue

REPORT_S = 180.0
"""Time between two messages about all waiting jobs, in seconds."""
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
        "Reserved for|May be reserved",
        "its nodes are reserved, for example for maintenance",
        "`scontrol show reservation` says until when. A reservation ends by itself; a job that ends before it begins "
        "can start now, with a lower `time_limit_min` of the study",
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
jobs end. Only a job that exceeds one by itself waits for ever; the regular message counts it with its reason.
"""


def find_obstacle(job: Job) -> str:
    """Return what keeps a job from ever starting, with the remedy; empty if it waits for its turn."""
    for pattern, meaning, remedy in OBSTACLES:
        if re.search(pattern, job.reason):
            return f"{meaning}; {remedy}".format(limit=job.time_limit, partition=job.partition)
    return ""


def list_waiting(call: str) -> list[Job]:
    """Return the waiting jobs of a call, whose names end with that of the call. Raises SlurmError.

    Jobs that SLURM has not considered yet are left out.
    """
    return [job for job in list_queue("PENDING") if job.name.endswith(call) and job.reason != "None"]


def describe_obstacles(jobs: Iterable[Job]) -> list[str]:
    """Return a message for each obstacle, with the jobs that it keeps from starting."""
    blocked = defaultdict(list)
    for job in jobs:
        if obstacle := find_obstacle(job):
            blocked[job.reason, obstacle].append(job)
    return [
        f"SLURM cannot start {_name(found)}, as things are: {reason}: {obstacle}"
        for (reason, obstacle), found in blocked.items()
    ]


def describe_queue(jobs: list[Job]) -> str:
    """Return one line about all waiting jobs: how many wait for which of SLURM's reasons."""
    reasons = Counter(job.reason + (" (cannot start)" if find_obstacle(job) else "") for job in jobs)
    counted = ", ".join(f"{count} for {reason}" for reason, count in reasons.most_common())
    starts = [datetime.fromtimestamp(job.started_at) for job in jobs if job.started_at is not None]
    expected = f"; SLURM expects the first to start at {min(starts).isoformat(timespec='seconds')}" if starts else ""
    return f"{_count(jobs)} in SLURM's queue: {counted}{expected}"


def _name_step(comment: str) -> str:
    """Return rule and wildcards from the comment that the plugin gives a job."""
    return comment.removeprefix("rule_").replace("_wildcards_", " ", 1)


def _count(jobs: list[Job]) -> str:
    return "1 job waits" if len(jobs) == 1 else f"{len(jobs)} jobs wait"


def _name(jobs: list[Job]) -> str:
    named = ", ".join(f"{job.id} ({_name_step(job.comment)})" for job in jobs[:SHOWN])
    more = f" and {len(jobs) - SHOWN} more" if len(jobs) > SHOWN else ""
    return f"job{'s' if len(jobs) > 1 else ''} {named}{more}"


class Watch:
    """Looks at the queue and decides what is new. say: prints a message."""

    def __init__(self, say: Callable[[str], None]):
        self._say, self._told, self._reported_at = say, set[tuple[str, str]](), time.monotonic()

    def look(self, jobs: list[Job]) -> None:
        """Report the obstacles of jobs at once, each of them once, and from time to time why all jobs wait."""
        # SLURM may name the same obstacle differently from one look to the next.
        for message in describe_obstacles(job for job in jobs if (job.id, find_obstacle(job)) not in self._told):
            self._say(message)
        self._told |= {(job.id, find_obstacle(job)) for job in jobs}
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
            with suppress(SlurmError):
                watch.look(list_waiting(call))

    threading.Thread(target=look_again, name="queue", daemon=True).start()
