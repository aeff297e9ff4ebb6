"""
Sample what the devices and the hosts do during a run, into telemetry.csv, and notice if all of it was frozen.

On one machine the launcher takes the samples. On a cluster, the first process of each node starts this module as a
program, and the launcher merges the nodes' files.
"""

import argparse
import json
import os
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from howmanygpus.measure.host.gpu_samples import Gpu
from howmanygpus.measure.host.host_samples import Node, ProcessMemory
from howmanygpus.measure.host.processes import Suspensions, describe_suspension, read_core_wait_s, wait_for_end
from howmanygpus.measure.host.samples import COLUMNS, WORDS, Source, name_columns

SLOW_S = 1.0
"""Time between samples of values that take longer to read."""
THIN_AFTER = 36_000
"""Number of samples after which the time between them doubles, each time: an hour of samples every tenth of a second.

A day on eight GPUs leaves a file of 130 MB instead of 700 MB.
"""
SILENCE_S = 30.0
"""A working sampler writes each second; clocks of nodes differ, and network file systems write late."""
LATE_FRAC, LATE_SAMPLES = 0.5, 10
"""Share of samples that a sampler may leave out because it was late, of at least so many."""
END_S = 10.0
"""How long a run waits for the last sample. A driver may never answer about a lost device."""
FROZEN_S = 1.0
"""Shortest delay of a sample that counts as a gap, without the wait of the sampler's thread for a core."""


@dataclass(frozen=True)
class Watched:
    """What the sampler of a node watches.

    pid: process whose descendants are the run's, with whose end the sampler ends. gpu_uuids: of the run's GPUs.
    cores: of each CPU device; empty if the devices are GPUs. is_process_each: whether each device has its own process.
    """

    pid: int
    gpu_uuids: list[str]
    cores: list[list[int]]
    is_process_each: bool

    def create_sources(self) -> list[Source]:
        """Return the sources to sample on this node; raise NVMLError if it does not have the GPUs."""
        memory = ProcessMemory(self.pid, len(self.cores), self.is_process_each) if self.cores else None
        return [Node(self.cores, memory), *(Gpu(uuid) for uuid in self.gpu_uuids)]


class Telemetry:
    """Sample every source each `interval_s` seconds in a thread, until the block is left.

    path: the node's file. create_sources: called in the thread. started_at: when the times of samples begin, in seconds
    since 1970.

    If a source fails, the traceback is left beside the file, and `find_problem` tells. If a sample is late although
    the thread did not wait for a core, everything on this node may have been frozen, and `compute_longest_gap` tells.
    """

    def __init__(
        self,
        path: Path,
        create_sources: Callable[[], list[Source]],
        started_at: float,
        interval_s: float,
        node: int = 0,
    ):
        self._path, self._create_sources, self._started_at, self._node = path, create_sources, started_at, node
        self._interval_s, self._num_samples, self._num_missed = interval_s, 0, 0
        self._given: dict[str, set[str]] = {}
        self._stop, self._own = threading.Event(), Suspensions()
        self._thread = threading.Thread(target=self._run, name="telemetry", daemon=True)

    def _run(self) -> None:
        try:
            self._sample_all()
        except Exception:
            get_problem_path(self._path).write_text(traceback.format_exc())

    def _sample_all(self) -> None:
        with open(self._path, "w") as file:
            file.write(",".join(COLUMNS) + "\n")
            sources = self._create_sources()
            self._began = time.monotonic(), time.thread_time()
            due = self._began[0] + self._interval_s
            while not self._wait(due):
                slow_every = max(1, round(SLOW_S / self._interval_s))
                for position, source in enumerate(sources):
                    # Sources take turns, so that a sample in which all are slow delays none.
                    self._sample(file, source, (self._num_samples - position) % slow_every == 0)
                self._num_samples += 1
                if self._num_samples % slow_every == 0:
                    file.flush()
                    self._write_facts(sources)
                num_late = max(0, int((time.monotonic() - due) / self._interval_s))
                self._num_missed += num_late
                due += (1 + num_late) * self._interval_s
                if self._num_samples % THIN_AFTER == 0:
                    self._interval_s *= 2
        self._write_facts(sources)

    def _sample(self, file: Any, source: Source, is_slow: bool) -> None:
        time_s = time.time() - self._started_at
        for device, values in source.sample(time_s, is_slow):
            cells = [format_value(values.get(column)) for column in COLUMNS[3:]]
            file.write(f"{time_s:.3f},{self._node},{device},{','.join(cells)}\n")
            if is_slow:
                given = {column for column, value in values.items() if value is not None}
                self._given.setdefault(device, set()).update(given)

    def _wait(self, due: float) -> bool:
        """Wait until the next sample, which may be a gap; return whether it is not wanted."""
        waited_before, began = read_core_wait_s(), time.monotonic()
        wait_s = max(0.0, due - began)
        is_stopped = self._stop.wait(wait_s)
        late_s = time.monotonic() - began - wait_s
        if late_s > FROZEN_S and (late_s := late_s - (read_core_wait_s() - waited_before)) > FROZEN_S:
            with open(get_gaps_path(self._path), "a") as file:
                file.write(f"{time.time()} {late_s}\n")
        return is_stopped

    def _write_facts(self, sources: list[Source]) -> None:
        """Write what is known about the samples so far; this process may be killed."""
        wall_s, cpu_s = time.monotonic() - self._began[0], time.thread_time() - self._began[1]
        facts = {
            "num_samples": self._num_samples,
            "num_missed": self._num_missed,
            "core_frac": cpu_s / wall_s,
            "missing": {
                device: {column: source.missing.get(device, {}).get(column, "") for column in missing}
                for source in sources
                for device, expected in source.expected.items()
                if (missing := [column for column in expected if column not in self._given.get(device, ())])
            },
            "of_board": {device: columns for source in sources for device, columns in source.of_board.items()},
            "problems": [problem for source in sources for problem in source.find_problems()],
        }
        partial = self._path.with_suffix(".partial")
        partial.write_text(json.dumps(facts))
        os.replace(partial, get_facts_path(self._path))

    def __enter__(self) -> "Telemetry":
        self._own.__enter__()
        self._thread.start()
        return self

    def __exit__(self, *_) -> None:
        self._stop.set()
        self._thread.join(END_S)
        if self._thread.is_alive():
            get_problem_path(self._path).write_text(f"a device has not answered for {END_S:g} s")
        self._own.__exit__()
        # This process was stopped, perhaps it alone; the others count their own stops.
        if self._own.stops:
            get_gaps_path(self._path).unlink(missing_ok=True)


def format_value(value: float | str | None) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return f"{value:.6g}" if abs(value) < 1e5 else f"{value:.1f}"


def get_node_path(folder: Path, node: int) -> Path:
    """Return the path of a node's file."""
    return Path(folder) / f"telemetry.node{node}.csv"


def get_problem_path(path: Path) -> Path:
    """Return the path of the traceback of a sampler that failed. path: the node's file."""
    return path.with_suffix(".problem.txt")


def get_facts_path(path: Path) -> Path:
    """Return the path of what a sampler knows about its samples, see Telemetry. path: the node's file."""
    return path.with_suffix(".json")


def get_start_path(folder: Path) -> Path:
    """Return the path of the moment at which the times of all nodes begin, in seconds since 1970."""
    return Path(folder) / "started_at.txt"


def get_gaps_path(path: Path) -> Path:
    """Return the path of a sampler's gaps: end (seconds since 1970) and duration of each. path: the node's file."""
    return path.with_suffix(".gaps.txt")


def compute_longest_gap(folder: Path, began_at: float) -> float:
    """Return the seconds of the longest gap of any node's samples that ended after a moment; 0 without one.

    folder: of the attempt.
    """
    lines = [line for path in Path(folder).rglob("telemetry.node*.gaps.txt") for line in path.read_text().splitlines()]
    gaps = [tuple(map(float, line.split())) for line in lines]
    return max((late_s for ended_at, late_s in gaps if ended_at > began_at), default=0.0)


def find_problem(folder: Path, num_nodes: int, ended_at: float) -> str | None:
    """Return why the samples of some node are incomplete; None if each node's sampler worked until the end.

    ended_at: when the processes ended, in seconds since 1970. A sampler that reported no problem counts as dead if its
    file was last written more than SILENCE_S before.
    """
    for node in range(num_nodes):
        path = get_node_path(folder, node)
        if get_problem_path(path).exists():
            # A full disk leaves the file empty.
            said = get_problem_path(path).read_text().strip().splitlines() or ["it could not write why"]
            return f"the sampler of node {node} failed: {said[-1]}"
        if not path.exists():
            return f"the sampler of node {node} took no sample"
        if (silence_s := ended_at - path.stat().st_mtime) > SILENCE_S:
            return f"the sampler of node {node} took no sample in the last {silence_s:.0f} s"
        facts = read_facts(folder, node)
        num_due = facts["num_samples"] + facts["num_missed"]
        if num_due >= LATE_SAMPLES and facts["num_missed"] > LATE_FRAC * num_due:
            return f"the sampler of node {node} was late and left out {facts['num_missed']} of {num_due} samples"
        if facts["problems"]:
            return f"node {node}: {'; '.join(facts['problems'])}"
    return None


def read_facts(folder: Path, node: int) -> dict[str, Any]:
    """Return what a node's sampler knew about its samples when it last wrote it; see Telemetry."""
    path = get_facts_path(get_node_path(folder, node))
    if path.exists():
        return json.loads(path.read_text())
    return {"num_samples": 0, "num_missed": 0, "core_frac": 0.0, "missing": {}, "of_board": {}, "problems": []}


def describe_samples(folder: Path, num_nodes: int, ended_at: float, interval_s: float) -> dict[str, Any]:
    """Return the entry `telemetry` of a run's record. The arguments are those of find_problem and of Telemetry.

    A host or a CPU device lacks what it lacks on any node.
    """
    facts = [read_facts(folder, node) for node in range(num_nodes)]
    missing: dict[str, dict[str, str]] = {}
    for each in facts:
        for device, columns in each["missing"].items():
            missing.setdefault(device, {}).update(columns)
    return {
        "interval_s": interval_s,
        "problem": find_problem(folder, num_nodes, ended_at),
        "missing": {
            device: [WORDS[column] + (f" ({reason})" if reason else "") for column, reason in columns.items()]
            for device, columns in missing.items()
        },
        "of_board": {device: name_columns(columns) for each in facts for device, columns in each["of_board"].items()},
        "core_frac": max(each["core_frac"] for each in facts),
    }


def merge_nodes(folder: Path, path: Path) -> None:
    """Merge the nodes' files of `folder`, in the order of nodes. Without any, only the header is written."""
    with open(path, "w") as merged:
        merged.write(",".join(COLUMNS) + "\n")
        for part in sorted(Path(folder).glob("telemetry.node*.csv"), key=lambda part: (len(part.name), part.name)):
            with open(part) as lines:
                next(lines, None)
                # A lost node may have left half a line.
                merged.writelines(line for line in lines if line.endswith("\n"))


def check_frozen(outcome: dict[str, Any], folder: Path, started_at: float) -> dict[str, Any]:
    """Return the outcome of an attempt, which is `suspended` if everything on a node was frozen while it trained.

    folder: the attempt's folder. started_at: start of its processes, in seconds since 1970.
    """
    frozen_s = compute_longest_gap(folder, started_at + (outcome.get("init_s") or 0.0))
    if not frozen_s or outcome["status"] != "completed" or "measured_s" not in outcome:
        return outcome
    return outcome | describe_suspension(f"nothing on one of its nodes went on for {frozen_s:.3g} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="folder of this node's file")
    parser.add_argument("--node", type=int, required=True)
    parser.add_argument("--watched", type=json.loads, required=True, help="JSON of Watched")
    parser.add_argument("--interval-s", type=float, required=True)
    arguments = parser.parse_args()
    watched = Watched(**arguments.watched)
    path, started_at = (
        get_node_path(arguments.folder, arguments.node),
        float(get_start_path(arguments.folder).read_text()),
    )
    with Telemetry(path, watched.create_sources, started_at, arguments.interval_s, arguments.node):
        if wait_for_end(watched.pid) is None:
            psutil.Process(watched.pid).wait()


if __name__ == "__main__":
    main()
