"""
The calls of Snakemake that start jobs in a folder, so that none interferes with the jobs of another.

A call announces itself by a file before its first job, and removes the file when it ends. It touches the file
regularly, so that other hosts see that it is alive. The file of a call that was killed stays and names its jobs.
"""

import atexit
import itertools
import json
import os
import pwd
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from howmanygpus.base.messages import TOLD, VARIABLE
from howmanygpus.base.secrets import make_hiding
from howmanygpus.files import read_each, write_json_atomic
from howmanygpus.measure.records import now
from howmanygpus.paths import JOB_LOGS, RUNS, STATE
from howmanygpus.site.slurm import SlurmError, list_queue

CALLS = STATE / "calls"
MESSAGE_CHECK_S = 0.5
TOUCH_INTERVAL_S = 30.0
SILENT_FOR_S = 300.0
"""After this time without a touch, other hosts consider a call dead. NFS may show the touch a minute late."""


class InUseError(Exception):
    """A call of Snakemake that is alive works in the folder."""


@dataclass(frozen=True)
class Call:
    """One call.

    name: also that of all its jobs of SLURM. born: the start time of its process, in ticks. logs: where its jobs of
    SLURM have their logs.
    """

    name: str
    folder_id: str
    host: str
    pid: int
    born: int | None
    started_at: str
    command: str
    logs: str = str(JOB_LOGS)

    def describe(self) -> str:
        return f"process {self.pid} on {self.host}, since {self.started_at} ({self.command})"


def announce(name: str, say: Callable[[str], None] = print, logs: Path = JOB_LOGS) -> None:
    """Announce this process as a call until it ends. Its jobs inherit the name by the environment variable.

    say: prints on the screen what jobs of the call tell it. logs: see Call.
    """
    CALLS.mkdir(parents=True, exist_ok=True)
    read_each(CALLS, "*.json", _mark_if_killed)
    command = make_hiding(os.environ)(" ".join(["snakemake", *sys.argv[1:]]))
    process = (os.uname().nodename, os.getpid(), read_start_ticks(os.getpid()))
    call = Call(name, identify_folder(), *process, now(), command, str(logs))
    path = (CALLS / f"{name}.json").absolute()
    write_json_atomic(path, asdict(call))
    os.environ[VARIABLE] = name
    atexit.register(path.unlink, missing_ok=True)
    threading.Thread(target=_touch_periodically, args=(path,), name="call", daemon=True).start()
    print_job_messages(say)


def print_job_messages(say: Callable[[str], None]) -> None:
    """Say what the jobs of this call tell it while it is at work."""
    path = (TOLD / os.environ[VARIABLE]).absolute()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    atexit.register(path.unlink, missing_ok=True)
    threading.Thread(target=_print_messages, args=(path, say), name="told", daemon=True).start()


def list_living_calls(folder: Path = Path()) -> list[Call]:
    """Return the calls that work in a folder. The files of a copied folder are those of other calls."""
    found = read_each(folder / CALLS, "*.json", lambda path: (_read(path), _is_alive(path)))
    return [call for call, is_running in found if is_running and call.folder_id == identify_folder(folder)]


def refuse_to_unlock(arguments: list[str]) -> None:
    """Raise InUseError if a folder is to be unlocked although a call works there."""
    if "--unlock" in arguments and (living := list_living_calls()):
        raise InUseError(
            f"--unlock: the call that locked this folder still runs: {living[0].describe()}. Two calls would do the "
            "same runs. Wait for its end or press Ctrl-C in its terminal, which releases the folder."
        )


def refuse_folder_of_another() -> None:
    """Raise InUseError if another user owns something here in which this user's calls would have to write."""
    state, results = STATE.parent, RUNS.parent
    below = (state.glob("*/"), STATE.glob("*/"), results.glob("*/"), results.glob("*/*/"))
    for path in filter(Path.exists, (Path(), state, results, *itertools.chain(*below))):
        if path.stat().st_uid != os.geteuid() and not os.access(path, os.W_OK | os.X_OK):
            owner, user = (name_user(uid) for uid in (path.stat().st_uid, os.geteuid()))
            raise InUseError(
                f"{path.absolute()}: belongs to {owner}, and {user} cannot write there. Give your calls in a folder of "
                f"your own, which can use the same clone: `--directory FOLDER`. To share this one, {owner} gives "
                "`chgrp -R GROUP . && chmod -R g+rwX . && find . -type d -exec chmod g+s {} +` here with a group of "
                "both, and both give `umask 002` before their calls, one after the other."
            )


def name_user(uid: int) -> str:
    """Return the name of a user; its number if the system knows none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def read_call(name: str | None) -> Call | None:
    """Return a call that works in this folder, by its name."""
    return next((call for call in list_living_calls() if call.name == name), None)


def list_killed_calls() -> list[Call]:
    """Return the calls in this folder that were killed."""
    living = {call.name for call in list_living_calls()}
    return [call for call in _find_all(Path()) if call.name not in living]


def list_jobs_of_folder(folder: Path) -> list[str]:
    """Return the ids of the jobs in SLURM's queue that calls in a folder have submitted; empty without SLURM."""
    return list_jobs([call.name for call in _find_all(folder)], own=False)


def find_job_logs(pattern: str) -> Iterator[Path]:
    """Yield each file of a pattern once, of the folders to which calls here let SLURM write the logs of jobs."""
    folders = [str(JOB_LOGS), *(call.logs for call in _find_all(Path()))]
    for folder in {os.path.realpath(folder) for folder in folders}:
        yield from Path(folder).rglob(pattern)


def _find_all(folder: Path) -> list[Call]:
    # Files whose names begin with a dot are not complete.
    calls = read_each(folder / CALLS, "[!.]*.*", _read)
    return [call for call in calls if call.folder_id == identify_folder(folder)]


def list_jobs(calls: list[str], states: str = "", own: bool = True) -> list[str]:
    """Return the ids of the jobs in SLURM's queue that some calls have submitted; empty if SLURM does not answer.

    calls: names of calls. The name of each job ends with that of its call. states, own: see site.slurm.list_queue.
    """
    if calls:
        with suppress(SlurmError):
            return [job.id for job in list_queue(states, own) if job.name.endswith(tuple(calls))]
    return []


def identify_folder(folder: Path = Path()) -> str:
    """Return a name of a folder that is the same on all hosts, also if they mount it in different places.

    A copy of the folder has another inode.
    """
    return f"{Path(os.path.realpath(folder)).name}-{folder.stat().st_ino}"


def read_start_ticks(pid: int) -> int | None:
    """Return when a process of this host started, in ticks since the host's start; None if there is no such process."""
    with suppress(OSError):
        # The name of the program, in parentheses, may contain spaces.
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    return None


def is_alive(pid: int, born: int | None) -> bool:
    """Whether a process of this host lives. born: see read_start_ticks; a later process may have the same number.

    If it is None, any process of the number counts.
    """
    now = read_start_ticks(pid)
    return now is not None and born in (None, now)


def _read(path: Path) -> Call:
    values = json.loads(path.read_text())
    return Call(**{field.name: values[field.name] for field in fields(Call) if field.name in values})


def _is_alive(path: Path) -> bool:
    """Whether the call that announced itself by this file still runs, as far as this host can know."""
    call = _read(path)
    if call.host == os.uname().nodename:
        return call.born is not None and read_start_ticks(call.pid) == call.born
    return _read_file_system_time(path.parent) - path.stat().st_mtime < SILENT_FOR_S


def _mark_if_killed(path: Path) -> None:
    """Rename the file of a call that was killed: other hosts cannot see at once that its process is gone."""
    if not _is_alive(path):
        path.rename(path.with_suffix(".killed"))


def _read_file_system_time(folder: Path) -> float:
    """Return the time by the clock of the file system, which may differ from this host's."""
    with suppress(OSError), tempfile.TemporaryFile(dir=folder) as file:
        return os.fstat(file.fileno()).st_mtime
    return time.time()


def _touch_periodically(path: Path) -> None:
    while True:
        time.sleep(TOUCH_INTERVAL_S)
        try:
            os.utime(path)
        except FileNotFoundError:
            return
        except OSError:
            pass  # the file server may be back when it is touched again


def _print_messages(path: Path, say: Callable[[str], None]) -> None:
    with suppress(OSError), open(path) as file:
        while path.exists():
            for line in file:
                say(line.rstrip("\n"))
            time.sleep(MESSAGE_CHECK_S)
