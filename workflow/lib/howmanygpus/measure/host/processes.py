"""Requests to the operating system: cores, memory, suspensions, and that no process outlives its run."""

import ctypes
import functools
import gc
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from howmanygpus.measure.host.limits import count_cores_in_quota

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
"""prctl(2), Linux"""
MAX_POLL_MS = 2**31 - 1
"""The longest timeout of poll(2)."""


def die_with_parent(signum: int = signal.SIGKILL, parent: int | None = None) -> None:
    """Ask the kernel to send `signum` to this process when its parent dies; does nothing off Linux.

    parent: process ID of the parent, if the caller knows it. A parent that has died before this call is noticed only
    with it, because the kernel sends nothing for a death in the past.
    """
    try:
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, int(signum))
    except (OSError, AttributeError):
        return
    if parent is not None and os.getppid() != parent:
        os.kill(os.getpid(), signum)


def wait_for_end(pid: int, timeout_s: float | None = None) -> bool | None:
    """Wait for the end of a process, and return whether it has ended; None if the kernel cannot tell (pidfd_open(2)).

    Popen.wait with a timeout and psutil look at the process 20 times a second, on a core that may belong to a run.
    """
    try:
        descriptor = os.pidfd_open(pid)
    except (OSError, AttributeError):
        return None
    try:
        waiting = select.poll()
        waiting.register(descriptor, select.POLLIN)
        return bool(waiting.poll(None if timeout_s is None else min(1000 * timeout_s, MAX_POLL_MS)))
    finally:
        os.close(descriptor)


def start_processes(command: list[str], environment: dict[str, str], cores: list[int]) -> subprocess.Popen[bytes]:
    """Start a command bound to cores, whose processes stop_descendants will stop; it dies with this process.

    Its processes whose own parent dies become children of this one (Linux).
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1)
    options: dict[str, Any] = {"env": environment, "start_new_session": True, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, **options, preexec_fn=functools.partial(prepare_child, cores, os.getpid()))


def prepare_child(cores: list[int], parent: int) -> None:
    """Bind a process that has just been forked to cores, and let it die with its parent, as `preexec_fn` of Popen."""
    os.sched_setaffinity(0, cores)
    die_with_parent(parent=parent)


KEPT_BYTES = {"TRIM": 2**31 - 1, "MMAP": 32 * 2**20}
"""Thresholds of glibc's malloc with the largest value that each accepts (mallopt(3))"""
KEEP_FREED_MEMORY = {f"MALLOC_{name}_THRESHOLD_": str(most) for name, most in KEPT_BYTES.items()}
"""Environment variables with which malloc keeps the memory of one training step for the next, in the `best` tier.

By default, malloc may return memory to the kernel after each step and pay for page faults in the next one. Whether it
does depends on what the process has freed before.
"""
NUMBERS_OF_MALLOPT = {"TRIM": -1, "MMAP": -3}
"""malloc.h of glibc"""


def set_malloc_thresholds() -> None:
    """Set the thresholds of KEEP_FREED_MEMORY again, in case a library has changed them."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    for name, most in KEPT_BYTES.items():
        mallopt(NUMBERS_OF_MALLOPT[name], most)


def read_core_wait_s() -> float:
    """Return the seconds that this thread has waited for a core while it had work; 0 where the kernel does not count.

    The second number of schedstat (Linux, Documentation/scheduler/sched-stats).
    """
    try:
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0


RETRY = "workflow/scripts/retry_runs.py --status suspended"


def describe_suspension(how: str) -> dict[str, str]:
    """Return status and reason of a run that was suspended. how: the observation, which begins the reason."""
    reason = f"{how} while it trained, so that its times have gaps; {RETRY} has the next call repeat it"
    return {"status": "suspended", "reason": reason}


class Suspensions:
    """Counts how often this process is stopped and continued, and how long its machine sleeps, within the block.

    Only the main thread can receive signals; in a block of another one, stops are not counted.
    """

    def __init__(self) -> None:
        self.stops, self.slept_s = 0, 0.0
        self._former: Callable | int | None = None

    def _note(self, signum: int, frame) -> None:
        self.stops += 1

    @staticmethod
    def _read_sleep_s() -> float:
        """Return the seconds since the start of the machine in which it slept (clock_gettime(2))."""
        return time.clock_gettime(time.CLOCK_BOOTTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)

    def __enter__(self) -> "Suspensions":
        self._slept_before_s = self._read_sleep_s()
        if threading.current_thread() is threading.main_thread():
            self._former = signal.signal(signal.SIGCONT, self._note)
            # System calls of the framework are restarted, as without a handler.
            signal.siginterrupt(signal.SIGCONT, False)
        return self

    def __exit__(self, *_) -> None:
        self.slept_s = self._read_sleep_s() - self._slept_before_s
        if self._former is not None:
            signal.signal(signal.SIGCONT, self._former)


def list_cores(num_wanted: int = 1) -> list[int]:
    """Return the cores that this process may use: one hardware thread of each physical core before any second one.

    They are no more than a quota of processor time allows to be used at a time.

    num_wanted: cores of the most devices that a run may have. If they are more than there are physical cores, both
    threads of one stand together, so that few devices do not get physical cores of which many would have one thread.
    """
    allowed = os.sched_getaffinity(0)
    if num_wanted > sum(position_among_siblings(core) == 0 for core in allowed):
        return sorted(allowed, key=lambda core: (list_siblings(core), core))[: count_cores_in_quota()]
    return sorted(allowed, key=lambda core: (position_among_siblings(core), core))[: count_cores_in_quota()]


def position_among_siblings(core: int) -> int:
    return list_siblings(core).index(core)


def list_siblings(core: int) -> list[int]:
    """Return the hardware threads of a core's physical core, by rising number."""
    path = Path(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list")
    return sorted(_parse_cores(path.read_text())) if path.exists() else [core]


NUMA_NODES = Path("/sys/devices/system/node")


def list_numa_nodes() -> dict[int, set[int]]:
    """Return the cores of each NUMA node by its number; empty if the kernel does not tell."""
    paths = sorted(NUMA_NODES.glob("node[0-9]*/cpulist"), key=lambda path: int(path.parent.name[4:]))
    return {int(path.parent.name[4:]): set(_parse_cores(path.read_text())) for path in paths}


def share_cores(cores: list[int], near: Sequence[set[int] | None], per_device: int) -> list[list[int]]:
    """Return `per_device` cores for each device, none twice.

    cores: in the order in which they are preferred, as list_cores returns them. near: for each device the cores near
    its GPU, or None for a CPU device, which gets cores of one NUMA node if a node has as many left.
    """
    free, shares = list(cores), []
    for wanted in near:
        if wanted is None:
            position = position_among_siblings(free[0])
            alike = [core for core in free if position_among_siblings(core) == position]
            nodes = list_numa_nodes().values()
            wanted = next((node for node in nodes if len(node.intersection(alike)) >= per_device), set())
        share = sorted(free, key=lambda core: core not in wanted)[:per_device]
        free = [core for core in free if core not in share]
        shares.append(share)
    return shares


def _parse_cores(text: str) -> list[int]:
    """Parse the kernel's lists, such as 0-3,8."""
    found: list[int] = []
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        found.extend(range(int(first), int(last or first) + 1))
    return found


DEVICE_CORES_VARIABLE = "HOWMANYGPUS_CORES"
"""Environment variable with the cores of each device of the run on this node, such as 0,1;8,9."""


def describe_cores(cores_by_device: list[list[int]]) -> dict[str, str]:
    """Return the environment variable that bind_to_device_cores reads."""
    return {DEVICE_CORES_VARIABLE: ";".join(",".join(map(str, cores)) for cores in cores_by_device)}


def end_without_collecting() -> None:
    """Let the interpreter end without looking for garbage, which takes it about a second with a framework loaded.

    Call it last, when files are closed and process groups have been left. What is registered with atexit still runs.
    """
    gc.freeze()


RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "HOROVOD_RANK")
"""Environment variables with the process's number in the run, by measure.launch.rank_process, mpirun and Horovod."""


def read_rank() -> int:
    """Return the number of this process in the run. A process without a number is the only one."""
    return int(next((os.environ[name] for name in RANKS if name in os.environ), 0))


LOCAL_RANKS = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "HOROVOD_LOCAL_RANK")
"""Environment variables with the process's number on its node, by the same programs."""


OWN_DEVICE = "HOWMANYGPUS_DEVICE"
"""Environment variable with the number of an independent run's device on its node, of which that run knows nothing."""


def is_first_on_node() -> bool:
    """Whether this is the first process of a run on its node. A process without a number is the only one."""
    return int(next((os.environ[name] for name in LOCAL_RANKS if name in os.environ), 0)) == 0


BINDING_VARIABLE = "HOWMANYGPUS_LEAVE_BINDING"
"""Environment variable that the launcher sets if a scheduler has bound the processes to their cores."""


def bind_to_device_cores(local_rank: int, cores_per_device: int) -> None:
    """Bind this process to its device's share of the run's cores on this node, as the launcher has shared them out."""
    if BINDING_VARIABLE in os.environ:
        return
    shares = [_parse_cores(share) for share in os.environ[DEVICE_CORES_VARIABLE].split(";")]
    assert len(shares[local_rank]) == cores_per_device, f"{shares} for {cores_per_device} cores per device"
    os.sched_setaffinity(0, shares[local_rank])


def stop_process_tree(root: psutil.Process, grace_s: float) -> None:
    """Send SIGTERM to a process and all its descendants, and SIGKILL to those that still run after grace_s seconds.

    A process that one of them starts at this moment may go on.
    """
    with suppress(psutil.NoSuchProcess):
        _stop([root, *root.children(recursive=True)], grace_s)


def stop_descendants(grace_s: float) -> None:
    """Stop all descendants of this process as stop_process_tree does, and those that they start meanwhile."""
    seen: set[psutil.Process] = set()
    # A process that the kernel cannot end, for example in a system call to a lost file server, is not waited for again.
    while new := set(psutil.Process().children(recursive=True)) - seen:
        seen |= new
        _stop(list(new), grace_s)


def _stop(processes: list[psutil.Process], grace_s: float) -> None:
    for signum in (signal.SIGTERM, signal.SIGKILL):
        for process in processes:
            # It has ended, or belongs to another user, as a setuid program does.
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                process.send_signal(signum)
        _, processes = psutil.wait_procs(processes, timeout=grace_s)
        if not processes:
            return
