"""
Takes the place of howmanygpus.gate.process: one process does each task with each of PLANTED_FAULTS in turn.

PLANTED_FAULTS has the optimizer and the cell behind each fault, such as no_decay:sgd:fp32, or `all`.

A framework takes longer to start than to do the task. The gate's own probe, renamed, does the tasks.
"""

import argparse
import json
import os
from pathlib import Path

from howmanygpus.gate import renamed_process


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tasks", type=Path)
    parser.add_argument("--errors", type=Path)
    arguments = parser.parse_args()
    tasks = json.loads(arguments.tasks.read_text())["tasks"]
    faulty = [
        task | {"fault": fault, "folder": f"{task['folder']}/{fault}"}
        for fault, optimizer, cell in (each.split(":") for each in os.environ["PLANTED_FAULTS"].split(","))
        for task in tasks
        if optimizer in (task["optimizer"], "all") and cell in (Path(task["folder"]).name, "all")
    ]
    for task in faulty:
        Path(task["folder"]).mkdir(exist_ok=True)
    renamed_process.do_all(faulty, arguments.errors, lambda task: os.environ.update(PLANTED_FAULT=task["fault"]))
    for task in tasks:
        # The gate waits for what was seen in the folder of the cell itself.
        rank = os.environ.get("RANK") or os.environ.get("OMPI_COMM_WORLD_RANK") or 0
        Path(task["folder"], f"{task['optimizer']}.rank{rank}.json").write_text("{}")


if __name__ == "__main__":
    main()
