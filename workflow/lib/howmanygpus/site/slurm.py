"""
The client of SLURM: no other module asks or commands it. Only `srun` starts processes elsewhere.

Each function asks one question or gives one command, with a deadline, and raises SlurmError without an answer. All
times are seconds since 1970. squeue and scontrol ask the controller, which forgets a job minutes after its end; sacct
asks the accounting database, which some clusters do not have.
"""

import getpass
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from math import inf
from typing import Any

PATIENCE_S = 20.0
"""How long an answer may take, in seconds; without a deadline, a command waits long for a lost controller."""
POLL_S = 0.5
AT_ONCE = 1000
"""Largest number of jobs in one command, because the length of a command line is limited."""
TIMES = {"TZ": "UTC0", "SLURM_TIME_FORMAT": "standard"}
"""Variables for times in one format, whatever the user prefers. Local times exist twice when summer time ends."""
PREFERENCES = re.compile(
    r"(SQUEUE|SACCT|SACCTMGR|SINFO|SCONTROL|SCANCEL)_.*|SLURM_(?!(CONF|CLUSTERS|WORKING_CLUSTER|JWT|SACK)).*"
)
"""Variables with which users and sites choose what a command prints, and about which jobs, as SQUEUE_PARTITION does.

Those of SLURM_ that say where SLURM is, and who asks, are none. The manual page of each command lists its variables.
"""
REQUESTS = re.compile(r"SBATCH_(?!(ACCOUNT|QOS|RESERVATION|WCKEY|DEBUG)$).*|SLURM_HINT|SINFO_.*")
"""Variables with which a shell changes what sbatch requests for each job (sbatch(1)).

Those that say who pays, or in which queue or reservation jobs wait, are none. Those of sinfo hide the default partition
from Snakemake's plugin.
"""
STATUS_COMMANDS = ("squeue", "sacct")
"""Commands that tell the states of jobs: of those in the queue, and of those in the accounting database."""
FORGOTTEN = "Invalid job id specified"
"""SLURM's words for a job that the controller does not know (ESLURM_INVALID_JOB_ID in slurm_errno.c)."""
ENDED = re.compile(f"{FORGOTTEN}|already complet")
"""scancel's words for a job that has ended."""
FIELD = re.compile(r"(\S+?)=(.*?)(?=\s+\S+?=|\s*$)")
"""A field of a line of scontrol. A value may be empty or contain blanks, and more than one blank may follow it."""
CONFIGURED = re.compile(r"(\w+)\s+=\s(.*)")
"""A line of `scontrol show config`."""
ALIVE = {"PENDING", "RUNNING", "SUSPENDED"}
ALIVE |= {"CONFIGURING", "POWER_UP_NODE", "EXPEDITING", "RESIZING", "SIGNALING", "STOPPED", "COMPLETING", "STAGE_OUT"}
ALIVE |= {"REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD"}
"""States and flags of jobs that have not ended, or will start again (https://slurm.schedmd.com/job_state_codes.html).

SLURM's commands print one word for a job: a flag that they know, or else the state.
"""
ID = re.compile(r"\d[\d_.+]*")
STATE = re.compile(r"([A-Z_]+)( by .*)?")
"""A state. sacct names the user who cancelled a job, as in `CANCELLED by 1000`."""
QUEUE = {
    "%i": "id",
    "%T": "state",
    "%S": "started_at",
    "%e": "ended_at",
    "%l": "time_limit",
    "%N": "nodes",
    "%r": "reason",
    "%P": "partition",
    "%u": "user",
    "%j": "name",
    # The last one, because it may contain the separator.
    "%k": "comment",
}
"""The fields of squeue and those of Job."""
DATABASE = {
    "JobIDRaw": "id",
    "State": "state",
    "Start": "started_at",
    "End": "ended_at",
    "Timelimit": "time_limit",
    "NodeList": "nodes",
    "AllocTRES": "allocated",
}
"""The fields of sacct and those of Job."""


class SlurmError(Exception):
    """A command of SLURM has failed or has not answered in time.

    status: its exit status; None if it was not there or did not answer.
    """

    def __init__(self, command: str, status: int | None, stderr: str):
        lines = stderr.strip().splitlines() or [f"exit status {status}"]
        super().__init__(f"{command}: {lines[-1].strip()}")
        self.command, self.status, self.stderr = command, status, stderr


@dataclass(frozen=True)
class Job:
    """A job, as far as the command that was asked tells it.

    state: one word; empty if scontrol tells none. nodes: names as SLURM abbreviates them; see list_nodes. time_limit:
    [days-]hours:minutes:seconds. memory: its request. requested, allocated: devices and other resources. restarts: how
    often SLURM has put it into the queue again. may_requeue: whether SLURM may do so. eligible_at: when it could have
    started. started_at: for a waiting job, when SLURM expects it to start. ended_at: None until it has ended.
    preempted_at: when SLURM last told it to make room, which only scontrol tells.
    """

    id: str
    state: str = ""
    name: str = ""
    user: str = ""
    comment: str = ""
    reason: str = ""
    partition: str = ""
    nodes: str = ""
    time_limit: str = ""
    memory: str = ""
    requested: str = ""
    allocated: str = ""
    exclusive: bool = False
    restarts: int = 0
    may_requeue: bool = True
    eligible_at: float | None = None
    started_at: float | None = None
    ended_at: float | None = None
    preempted_at: float | None = None

    @property
    def failed_in_grace(self) -> bool:
        """Whether the job failed in the grace time of a preemption, which SLURM does not count as preempted."""
        return self.state == "FAILED" and (self.preempted_at or 0.0) >= (self.started_at or 0.0) > 0.0

    @property
    def is_alive(self) -> bool:
        """Whether the job has not ended, or will start again."""
        return self.state in ALIVE


@dataclass(frozen=True)
class Partition:
    """A partition.

    time_limit: as for a job, or UNLIMITED. max_nodes, max_cores, max_memory_mb, max_memory_per_core_mb: infinity
    without a limit; cores and memory are those of a node. is_up: whether it starts jobs. groups, accounts, qos: those
    that may use it; empty for all. denied_accounts, denied_qos: those that may not.
    """

    name: str
    is_default: bool
    time_limit: str
    max_nodes: float
    max_memory_mb: float
    max_cores: float = inf
    max_memory_per_core_mb: float = inf
    is_up: bool = True
    groups: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    qos: tuple[str, ...] = ()
    denied_accounts: tuple[str, ...] = ()
    denied_qos: tuple[str, ...] = ()


@dataclass(frozen=True)
class Node:
    """A node. gres: such as gpu:a100:4(S:0-1),nvme:1. local_disk_mb: size of the folder TmpFS of the configuration."""

    name: str
    partitions: tuple[str, ...]
    features: tuple[str, ...]
    cores: int
    memory_mb: int
    gres: str
    sockets: int = 1
    local_disk_mb: int = 0


@dataclass(frozen=True)
class Association:
    """An account of this user.

    max_submitted: how many jobs may wait and run at a time; infinity without a limit. default_qos: of its jobs, if one
    is set.
    """

    account: str
    max_submitted: float
    default_qos: str = ""


def read_job_id() -> str | None:
    """Return the id of the job that this process is part of; None outside of jobs."""
    return os.environ.get("SLURM_JOB_ID")


def find_job(job_id: str) -> Job | None:
    """Return what the controller knows about a job; None if it has forgotten the job."""
    try:
        told = parse_fields(_call(["scontrol", "--oneliner", "show", "job", job_id]))
    except SlurmError as error:
        if FORGOTTEN in error.stderr:
            return None
        raise
    return _drop_expected_end(
        Job(
            id=job_id,
            state=told.get("JobState", ""),
            name=told.get("JobName", ""),
            comment=told.get("Comment", ""),
            reason=told.get("Reason", ""),
            partition=told.get("Partition", ""),
            nodes=told.get("NodeList", ""),
            time_limit=told.get("TimeLimit", ""),
            memory=told.get("MinMemoryNode") or told.get("MinMemoryCPU") or "",
            requested=told.get("TresPerNode", ""),
            allocated=told.get("TRES") or told.get("AllocTRES") or "",
            exclusive=told.get("OverSubscribe") == "NO",
            restarts=int(told.get("Restarts", 0)),
            may_requeue=told.get("Requeue") != "0",
            eligible_at=_to_seconds(told.get("EligibleTime", "")),
            started_at=_to_seconds(told.get("StartTime", "")),
            ended_at=_to_seconds(told.get("EndTime", "")),
            preempted_at=_to_seconds(told.get("PreemptTime", "")),
        )
    )


def look_up(job_id: str) -> Job | None:
    """Return a job as the controller or, if that does not tell it, the database knows it.

    None if the controller has forgotten the job, and no database tells it. Raises SlurmError if neither answers.
    """
    silent: SlurmError | None = None
    try:
        if job := find_job(job_id):
            if job.state:
                return job
            silent = SlurmError("scontrol", None, f"no state of job {job_id}")
    except SlurmError as error:
        silent = error
    try:
        known = list_accounted([job_id])
    except SlurmError:
        known = []
    if not known and silent:
        raise silent
    return known[-1] if known else None


def list_queue(
    states: str = "",
    own: bool = True,
    ids: Sequence[str] = (),
    patience_s: float = PATIENCE_S,
    is_wanted: Callable[[], bool] | None = None,
) -> list[Job]:
    """Return the jobs that the controller knows.

    states: `all` with those that have ended, or SLURM's names; empty for those that have not ended. own: whether only
    jobs of this user are listed. ids: if given, only these. is_wanted: see _call.
    """
    command = ["squeue", "--noheader", f"--format={'|'.join(QUEUE)}"]
    command += ["--me"] if own else []
    command += [f"--states={states}"] if states else []
    command += [f"--jobs={','.join(ids)}"] if ids else []
    try:
        return _parse_jobs(_call(command, patience_s, is_wanted), list(QUEUE.values()))
    except SlurmError as error:
        if ids and FORGOTTEN in error.stderr:
            return []
        raise


def list_accounted(
    ids: Sequence[str],
    duplicates: bool = False,
    patience_s: float = PATIENCE_S,
    is_wanted: Callable[[], bool] | None = None,
) -> list[Job]:
    """Return jobs as the accounting database knows them.

    duplicates: whether a job that was requeued is listed once for each start. is_wanted: see _call.
    """
    command = ["sacct", "--allocations", "--noheader", "--parsable2", f"--format={','.join(DATABASE)}"]
    command += ["--duplicates"] if duplicates else []
    return _parse_jobs(_call([*command, f"--jobs={','.join(ids)}"], patience_s, is_wanted), list(DATABASE.values()))


def list_nodes(names: str) -> list[str]:
    """Return the names of nodes that SLURM abbreviates, such as node[1-3], in their order."""
    return _call(["scontrol", "show", "hostnames", names]).split()


def list_partitions() -> list[Partition]:
    """Return all partitions, also hidden ones."""
    return [
        Partition(
            name=told["PartitionName"],
            is_default=told.get("Default") == "YES",
            time_limit=told.get("MaxTime", ""),
            max_nodes=_to_number(told.get("MaxNodes", "")),
            max_memory_mb=_to_number(told.get("MaxMemPerNode", "")),
            max_cores=_to_number(told.get("MaxCPUsPerNode", "")),
            max_memory_per_core_mb=_to_number(told.get("MaxMemPerCPU", "")),
            is_up=told.get("State", "UP") == "UP" and told.get("RootOnly") != "YES",
            groups=_to_names(told.get("AllowGroups", "ALL")),
            accounts=_to_names(told.get("AllowAccounts", "ALL")),
            qos=_to_names(told.get("AllowQos", "ALL")),
            denied_accounts=_to_names(told.get("DenyAccounts", "")),
            denied_qos=_to_names(told.get("DenyQos", "")),
        )
        for told in _show_all("partition", "PartitionName")
    ]


def describe_nodes() -> list[Node]:
    """Return all nodes. Their cores and memory are those for jobs."""
    return [
        Node(
            name=told["NodeName"],
            partitions=tuple(told.get("Partitions", "").split(",")),
            features=tuple(told.get("AvailableFeatures", "").split(",")),
            cores=int(told.get("CPUEfctv") or told["CPUTot"]),
            memory_mb=int(told["RealMemory"]) - int(told.get("MemSpecLimit", 0)),
            gres=told.get("Gres", ""),
            sockets=int(told.get("Sockets", 1)),
            local_disk_mb=int(told.get("TmpDisk", 0)),
        )
        for told in _show_all("node", "NodeName")
    ]


def read_configuration() -> dict[str, str]:
    """Return SLURM's configuration by name of the parameter, such as SLURM_VERSION."""
    lines = _call(["scontrol", "show", "config"]).splitlines()
    return {found[1]: found[2].strip() for line in lines if (found := CONFIGURED.fullmatch(line.rstrip()))}


def list_associations() -> list[Association]:
    """Return the accounts that this user may charge, as the accounting database knows them."""
    command = ["sacctmgr", "--noheader", "--parsable2", "show", "associations", f"user={getpass.getuser()}"]
    lines = _call([*command, "format=Account,MaxSubmitJobs,DefaultQOS"]).splitlines()
    told = [line.split("|") for line in lines if line.count("|") in (1, 2)]
    return [Association(account, _to_number(most), *qos) for account, most, *qos in told]


def cancel(ids: Iterable[str], only_waiting: bool = False) -> None:
    """Cancel jobs; those that have ended are none. only_waiting: whether jobs that have started go on."""
    named = sorted(set(ids))
    for first in range(0, len(named), AT_ONCE):
        state = ["--state=PENDING"] if only_waiting else []
        try:
            _call(["scancel", *state, *named[first : first + AT_ONCE]])
        except SlurmError as error:
            problems = [line for line in error.stderr.splitlines() if line.strip() and not ENDED.search(line)]
            if problems or error.status is None:
                raise SlurmError("scancel", error.status, "\n".join(problems) or error.stderr) from None


def rename(job_id: str, name: str) -> None:
    _call(["scontrol", "update", f"JobId={job_id}", f"JobName={name}"])


def submit(options: Sequence[str], script: str) -> str:
    """Submit a script and return what sbatch prints.

    There is no deadline, because an sbatch that is stopped may have submitted the job. The job inherits this
    environment.
    """
    try:
        done = subprocess.run(["sbatch", *options], input=script, text=True, errors="replace", capture_output=True)
    except OSError as error:
        raise SlurmError("sbatch", None, error.strerror or "cannot be executed") from None
    if done.returncode:
        raise SlurmError("sbatch", done.returncode, done.stderr)
    return done.stdout + done.stderr


def forget_requests() -> list[str]:
    """Remove from this process's environment what changes the requests of its jobs, and return the names."""
    names = [name for name in sorted(os.environ) if REQUESTS.fullmatch(name)]
    for name in names:
        del os.environ[name]
    return names


def to_minutes(limit: str | None) -> float:
    """Return the minutes of [days-]hours:minutes:seconds; infinity for anything else, such as UNLIMITED."""
    days, _, rest = (limit or "").rpartition("-")
    parts = rest.split(":")
    if len(parts) != 3 or not all(part.isdigit() for part in parts):
        return inf
    hours, minutes, seconds = map(int, parts)
    return int(days or 0) * 1440 + hours * 60 + minutes + seconds / 60


def build_environment(given: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a command of SLURM, so that its answer does not depend on anybody's preferences."""
    return {name: value for name, value in given.items() if not PREFERENCES.fullmatch(name)} | TIMES


def _call(command: list[str], patience_s: float = PATIENCE_S, is_wanted: Callable[[], bool] | None = None) -> str:
    """Return what a command prints. Raises SlurmError if it fails, or does not end within patience_s.

    is_wanted: is asked every POLL_S while the command runs; once it returns False, the command is stopped.
    """
    try:
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # SLURM keeps a name or a comment in the encoding of the shell that wrote it.
            errors="replace",
            env=build_environment(os.environ),
            # SLURM asks nobody: scancel would, if a user prefers so.
            stdin=subprocess.DEVNULL,
            # Ctrl-C in a terminal reaches only this process, which decides what goes on.
            start_new_session=True,
        )
    except OSError as error:
        raise SlurmError(command[0], None, error.strerror or "cannot be executed") from None
    until, complaint = time.monotonic() + patience_s, ""
    try:
        while True:
            with suppress(subprocess.TimeoutExpired):
                printed, complaint = process.communicate(timeout=min(POLL_S, patience_s))
                break
            if time.monotonic() > until or not (is_wanted is None or is_wanted()):
                raise SlurmError(command[0], None, f"did not answer within {patience_s:.0f} s")
    finally:
        if process.returncode is None:
            # A site's wrapper may have started a program that keeps the pipes open.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if process.returncode:
        raise SlurmError(command[0], process.returncode, complaint)
    return printed


def _parse_jobs(printed: str, names: list[str]) -> list[Job]:
    """Return the jobs of lines of fields. Names of clusters, and what a site's wrapper prints, are on other lines."""
    found = []
    for line in printed.splitlines():
        told: dict[str, Any] = dict(zip(names, line.strip().split("|", len(names) - 1), strict=False))
        state = STATE.fullmatch(told.get("state", ""))
        if state and len(told) == len(names) and ID.fullmatch(told["id"]):
            times = {name: _to_seconds(told[name]) for name in ("started_at", "ended_at")}
            found.append(_drop_expected_end(Job(**told | times | {"state": state[1]})))
    return found


def _drop_expected_end(job: Job) -> Job:
    """Return a job without the end that the controller expects for it."""
    return replace(job, ended_at=None) if job.is_alive else job


def _show_all(what: str, key: str) -> list[dict[str, str]]:
    lines = _call(["scontrol", "--all", "--oneliner", "show", what]).splitlines()
    return [parse_fields(line) for line in lines if line.startswith(f"{key}=")]


def parse_fields(line: str) -> dict[str, str]:
    """Return the fields of a line of scontrol. The first one of a name counts, because a remark may look like one."""
    return dict(reversed(FIELD.findall(line)))


def _to_seconds(moment: str) -> float | None:
    """Convert a time of SLURM, which TIMES makes UTC; None for a time that is not known yet."""
    try:
        return datetime.fromisoformat(moment).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


def _to_number(value: str) -> float:
    """Convert a number of SLURM; infinity for anything else, such as UNLIMITED."""
    return float(value) if value.isdigit() else inf


def _to_names(value: str) -> tuple[str, ...]:
    """Convert a list of those who may use a partition; empty for all."""
    return () if value in ("ALL", "") else tuple(value.split(","))
