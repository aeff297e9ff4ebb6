"""
Does one try of a search: a short training in a process of its own, by the launcher that starts runs.

A framework that ran out of memory does not free all of it, so no process does two tries.
"""

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from howmanygpus.files import write_json_atomic
from howmanygpus.measure.input.prepared import PreparedData
from howmanygpus.measure.input.writing import write_data
from howmanygpus.measure.largest.bisecting import FAILED, FITS, NO_STEP, OUT_OF_HOST_MEMORY, OUT_OF_MEMORY
from howmanygpus.measure.loop.memory_messages import FAILED_ALLOCATION
from howmanygpus.measure.records import ENDED_WELL, AttemptFolder

LONGEST_S = 1800.0
"""Time limit of a try."""
RUNNING = "running"
"""Status of an attempt until its launcher writes how it ended."""
STEPS_PER_EPOCH = 2
"""The host runs ahead of the devices within an epoch, as it does in a run."""
DISTINCT_IMAGES = 64
"""Images that a try repeats, because memory does not depend on what they show."""
CHANNEL_MEAN, CHANNEL_STD = 127.5, 73.9
"""Mean and standard deviation of uniformly drawn levels."""
TRAINED = ("completed", "diverged", "clock_mismatch", "suspended")
"""Statuses of runs whose steps had enough memory."""
CPU_WORDS = re.compile(
    "DefaultCPUAllocator: can't allocate memory|bad_alloc|Cannot allocate memory|RESOURCE_EXHAUSTED|"
    "OOM when allocating|Failed to allocate CPU Memory|could not create a (primitive|memory)|MemoryError|"
    "allocate of <[^>]*> failed"
)
"""Messages of frameworks and libraries if memory is exhausted on a CPU, where none has an exception of its own."""


@dataclass(frozen=True)
class TryData:
    """The data of a try. images: images per step. num_test: images of the evaluation at its end."""

    image_shape: tuple[int, int, int]
    num_classes: int
    multi_label: bool
    images: int
    num_test: int


@dataclass(frozen=True)
class TryEnding:
    """How a try ended. outcome: FITS or another of measure.largest.bisecting."""

    outcome: str
    status: str
    reason: str
    seconds: float
    peak_memory_bytes: int | None
    device_model: str | None


def draw_data(work: TryData) -> PreparedData:
    """Draw the images of two steps, and those of an evaluation. A few random ones are repeated."""
    generator = np.random.default_rng(1)
    arrays: dict[str, Any] = {}
    for split, count in (("train", STEPS_PER_EPOCH * work.images), ("test", work.num_test)):
        chosen = np.arange(count) % DISTINCT_IMAGES
        shape = (min(count, DISTINCT_IMAGES), *work.image_shape)
        arrays[f"{split}_images"] = generator.integers(0, 256, shape, dtype=np.uint8)[chosen]
        if work.multi_label:
            labels = generator.integers(0, 2, (shape[0], work.num_classes), dtype=np.uint8)
        else:
            labels = generator.integers(0, work.num_classes, shape[0]).astype(np.int32)
        arrays[f"{split}_labels"] = labels[chosen]
    channels = work.image_shape[2]
    return PreparedData(
        **arrays,
        num_classes=work.num_classes,
        channel_mean=(CHANNEL_MEAN,) * channels,
        channel_std=(CHANNEL_STD,) * channels,
    )


@dataclass(frozen=True)
class Launcher:
    """What starts a try: the interpreter with the launcher's module, and the variables that it gets."""

    python: str
    module: str
    environment: Mapping[str, str]


def do_try(
    launcher: Launcher,
    make_spec: Callable[[str], dict],
    work: TryData | None,
    folder: Path,
    placement: dict,
    deadline_s: float,
    memory_bytes: int | None,
    explain: Callable[[AttemptFolder, dict], dict],
) -> TryEnding:
    """Train with one batch size, and return how that ended. Only the folder of a try that failed is kept.

    make_spec: returns the specification of the run, given the folder of its data. work: None for a program of the user,
    which has data of its own. folder: of this try; it is replaced. placement: see measure.host.placement. memory_bytes:
    memory limit of a process, on CPUs. explain: see site.jobs.endings.explain_crash.
    """
    shutil.rmtree(folder, ignore_errors=True)
    attempt, data, result = AttemptFolder(folder / "attempt"), folder / "data", folder / "run"
    attempt.path.mkdir(parents=True)
    data.mkdir()
    if work:
        write_data(data, draw_data(work))
    spec = make_spec(str(data))
    write_json_atomic(attempt.spec, spec)
    write_json_atomic(attempt.placement, placement)
    command = [launcher.python, "-m", launcher.module, "--attempt", str(attempt.path)]
    command += ["--run-dir", str(result), "--deadline-s", str(min(deadline_s, LONGEST_S))]
    command += ["--parent", str(os.getpid())]
    killed_before, started = count_killed(), time.monotonic()
    exit_status, said = run(command, launcher.environment, folder / "said.txt", memory_bytes)
    seconds = time.monotonic() - started
    if not (record := read_record(result / "run.json")) and (record := read_record(attempt.record)):
        record |= explain(attempt, record)
    status, reason = record.get("status", RUNNING), record.get("reason", "")
    if status == RUNNING:
        ended_by = signal.Signals(-exit_status).name if exit_status < 0 else f"exit status {exit_status}"
        status, reason = "crashed", f"the launcher ended without a word, by {ended_by}"
    if work is None:
        # What a program said last is its reason, with all that it said before.
        reason = (reason.splitlines() or [""])[-1]
    outcome = judge(status, f"{reason}\n{said}", spec["device_kind"], count_killed() > killed_before)
    if outcome == FAILED and reason.startswith(ENDED_WELL):
        outcome = NO_STEP
    shutil.rmtree(folder if outcome not in (FAILED, NO_STEP) else data)
    return TryEnding(outcome, status, reason, seconds, record.get("peak_memory_bytes"), record.get("device_model"))


def run(command: list[str], environment: Mapping[str, str], path: Path, memory_bytes: int | None) -> tuple[int, str]:
    """Run a command, print its output, and return its exit status and output. path: file for the output."""
    with open(path, "wb") as file:
        prepare = partial(limit_memory, memory_bytes)
        options: dict[str, Any] = {"env": environment, "preexec_fn": prepare}
        ended = subprocess.run(command, check=False, stdout=file, stderr=subprocess.STDOUT, **options)
    said = path.read_text(errors="replace")
    print(said, end="", flush=True)
    return ended.returncode, said


def limit_memory(memory_bytes: int | None) -> None:
    """Limit the memory of this process and its children, so that allocations fail before the host has no memory left.

    With a limit, the kernel also kills these processes before others if the machine has no memory left.
    """
    if memory_bytes is None:
        return
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    limit = memory_bytes if most == resource.RLIM_INFINITY else min(memory_bytes, most)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    Path("/proc/self/oom_score_adj").write_text("1000")


def count_killed() -> int:
    """Return how many processes the kernel has killed on this host because no memory was left."""
    lines = (line.split() for line in Path("/proc/vmstat").read_text().splitlines())
    return next((int(value) for name, value in lines if name == "oom_kill"), 0)


def read_record(path: Path) -> dict:
    return json.loads(path.read_text()) if path.exists() else {}


def judge(status: str, words: str, device_kind: str, has_killed: bool) -> str:
    """Return the outcome of a try from how it ended.

    status: of the run or of the attempt at it. words: the reason in the first line, then the whole output, because
    TensorFlow and libraries print that memory is exhausted, and then end by a signal. has_killed: whether the
    kernel killed a process for lack of memory meanwhile.
    """
    if status in TRAINED:
        return FITS
    if status == OUT_OF_MEMORY:
        return OUT_OF_MEMORY
    is_cpu = device_kind == "cpu"
    if status == "crashed" and not is_cpu and FAILED_ALLOCATION.search(words):
        return OUT_OF_MEMORY
    reason = words.partition("\n")[0]
    was_killed = has_killed and ("SIGKILL" in reason or reason == f"exit status {128 + 9}")
    if status == OUT_OF_HOST_MEMORY or was_killed or (is_cpu and status == "crashed" and CPU_WORDS.search(words)):
        # The memory of a device that consists of cores is that of its host.
        return OUT_OF_MEMORY if is_cpu else OUT_OF_HOST_MEMORY
    return FAILED
