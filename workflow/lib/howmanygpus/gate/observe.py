"""
Start a framework's processes on one layout of devices for all tasks of a group of the gate's cells.

One start does every cell's task with every optimizer, one after the other, because a framework takes longer to start
than to do a task. Over several nodes each task has a start of its own, because not every framework can join its servers
twice. If the processes end before all tasks are done, the current task has crashed, and another start does the rest. A
crash says nothing about the framework's work, so the program then fails and names every task that crashed.
"""

import argparse
import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from howmanygpus.files import write_json_atomic
from howmanygpus.gate.task import OPTIMIZERS, UNSUPPORTED, make_spec
from howmanygpus.measure.host.placement import Placement
from howmanygpus.measure.host.processes import die_with_parent
from howmanygpus.measure.launch.launch import lock_machine, run_processes
from howmanygpus.measure.launch.launchers import count_processes
from howmanygpus.measure.records import AttemptFolder
from howmanygpus.measure.spec import RunSpec

DEADLINE_S = 1800.0
CRASHES = "crashes.json"
"""File with the tasks that crashed: which one, with which exit status, and the folder with what it left behind."""


@dataclass(frozen=True)
class Task:
    """One cell's task with one optimizer. folder: the folder of the cell's observations. number: position, from 1."""

    spec: RunSpec
    optimizer: str
    folder: Path
    number: int

    @property
    def is_over(self) -> bool:
        """Return whether all processes have written their observations, or the cell needs none."""
        if (self.folder / UNSUPPORTED).exists():
            return True
        seen = [self.folder / f"{self.optimizer}.rank{rank}.json" for rank in range(count_processes(self.spec))]
        return all(path.exists() for path in seen)

    def describe_place(self) -> str:
        """Name the task in an error and in the log."""
        spec = self.spec
        return f"{spec.framework}, {spec.model}, {spec.precision}, {self.optimizer}, on {describe_devices(spec)}"

    def describe(self, num_tasks: int, started_at: float) -> dict:
        """Return the task in the form that gate.process reads."""
        spec = self.folder / f"{self.optimizer}.spec.json"
        name = f"task {self.number} of {num_tasks}: {self.describe_place()} ({self.folder.name})"
        known = {"spec": str(spec), "optimizer": self.optimizer, "folder": str(self.folder)}
        return known | {"name": name, "started_at": started_at}


def describe_devices(spec: RunSpec) -> str:
    devices = f"{spec.num_gpus} device{'s' if spec.num_gpus > 1 else ''}"
    return devices + (f" of {spec.num_nodes} nodes" if spec.num_nodes > 1 else "")


def make_tasks(request: dict, keys: list[str], layout: tuple[int, int], folder: Path, defaults: dict) -> list[Task]:
    """Make a task of every cell with every optimizer, and store its specification.

    request: see ParityGroup. defaults: see make_spec.
    """
    size = {"num_gpus": layout[0], "num_nodes": layout[1]}
    tasks: list[Task] = []
    for key in keys:
        cell = dict(request["cells"][key])
        task_folder, cell_folder = Path(cell.pop("task")), folder / key
        cell_folder.mkdir(parents=True)
        for optimizer in OPTIMIZERS:
            spec = make_spec(request["framework"], cell, size, optimizer, task_folder, defaults)
            (cell_folder / f"{optimizer}.spec.json").write_text(json.dumps(spec.to_dict()))
            tasks.append(Task(spec, optimizer, cell_folder, len(tasks) + 1))
    return tasks


def start(tasks: list[dict], spec: RunSpec, placement: Placement, attempt: AttemptFolder) -> int:
    """Start the framework once for described tasks; return the exit status. spec: specification of the first task."""
    for error in attempt.path.glob("error.rank*.txt"):
        error.unlink()
    path = attempt.path / "tasks.json"
    write_json_atomic(path, {"tasks": tasks})
    options = ["--tasks", str(path), "--errors", str(attempt.path)]
    with lock_machine(placement, f"the parity gate of {spec.framework} on {describe_devices(spec)}"):
        return run_processes(spec, placement, attempt, "howmanygpus.gate.process", options, DEADLINE_S)


def move_aside(attempt: AttemptFolder, number: int) -> Path:
    """Move what the processes of a crash have left behind to a folder of its own, and return the folder."""
    folder = attempt.path / f"crash{number}"
    folder.mkdir()
    for path in (attempt.said, *attempt.path.glob("error.rank*.txt")):
        if path.exists():
            path.rename(folder / path.name)
    return folder


def observe(tasks: list[Task], placement: Placement, attempt: AttemptFolder) -> list[dict]:
    """Start the framework until every task is done or has crashed. Return the entries of CRASHES."""
    crashes: list[dict] = []
    waiting, started_at = tasks, time.time()
    while waiting := [task for task in waiting if not task.is_over]:
        at_once = waiting if waiting[0].spec.num_nodes == 1 else waiting[:1]
        spec, left = at_once[0].spec, f"{len(waiting)} of {len(tasks)} tasks are left"
        print(f"Starting {spec.framework} on {describe_devices(spec)}: {left}", flush=True)
        status = start([task.describe(len(tasks), started_at) for task in at_once], spec, placement, attempt)
        if crashed := next((task for task in at_once if not task.is_over), None):
            folder = move_aside(attempt, len(crashes))
            crashes.append({"task": crashed.describe_place(), "exit_status": status, "folder": str(folder)})
            waiting = [task for task in waiting if task.folder != crashed.folder]
    print(f"{time.time() - started_at:6.1f} s: all tasks of {describe_devices(tasks[0].spec)} have ended", flush=True)
    return crashes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--request", type=json.loads, required=True, help="JSON: framework and cells")
    parser.add_argument("--defaults", type=json.loads, required=True, help="JSON: defaults of the other settings")
    parser.add_argument("--keys", nargs="+", required=True, help="cells to observe on this layout")
    parser.add_argument("--num-devices", type=int, required=True)
    parser.add_argument("--num-nodes", type=int, default=1)
    parser.add_argument("--placement", type=json.loads, default={}, help="JSON: see measure.host.placement")
    parser.add_argument("--folder", type=Path, required=True, help="where to leave what was seen, by cell")
    arguments = parser.parse_args()
    die_with_parent()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    layout = (arguments.num_devices, arguments.num_nodes)
    tasks = make_tasks(arguments.request, arguments.keys, layout, arguments.folder, arguments.defaults)
    if crashes := observe(tasks, Placement.without_data(arguments.placement), AttemptFolder(arguments.folder)):
        write_json_atomic(arguments.folder / CRASHES, {"crashes": crashes})
        lines = [f"{crash['task']} crashed: exit status {crash['exit_status']}" for crash in crashes]
        sys.exit("\n".join(["The parity gate's task was not done:", *lines]))


if __name__ == "__main__":
    main()
