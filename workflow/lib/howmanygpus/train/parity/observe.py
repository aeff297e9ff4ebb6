"""Start a framework's processes at the gate's task, on each number of devices in turn."""

import argparse
import json
from pathlib import Path

from howmanygpus.train.host.placement import Placement
from howmanygpus.train.host.processes import die_with_parent
from howmanygpus.train.parity.task import OPTIMIZERS, make_spec
from howmanygpus.train.records import AttemptFolder
from howmanygpus.train.start.launch import hold_machine, run_processes

DEADLINE_S = 1800.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--framework", type=json.loads, required=True, help="JSON: framework, family, launcher")
    parser.add_argument("--cell", type=json.loads, required=True, help="JSON: what is checked, see task.make_spec")
    parser.add_argument("--task", type=Path, required=True, help="folder of the task's data and weights")
    parser.add_argument("--num-devices", type=int, required=True)
    parser.add_argument("--num-nodes", type=int, default=1)
    parser.add_argument("--placement", type=json.loads, default={}, help="JSON: see howmanygpus.train.host.placement")
    parser.add_argument("--folder", type=Path, required=True, help="where to leave what was seen")
    arguments = parser.parse_args()
    placement, attempt = Placement.without_data(arguments.placement), AttemptFolder(arguments.folder)
    die_with_parent()
    for optimizer in OPTIMIZERS:
        size = {"num_gpus": arguments.num_devices, "num_nodes": arguments.num_nodes}
        spec = make_spec(arguments.framework, arguments.cell, size, optimizer, arguments.task)
        path = arguments.folder / f"{optimizer}.spec.json"
        path.write_text(json.dumps(spec.to_dict()))
        options = ["--spec", str(path), "--optimizer", optimizer, "--folder", str(arguments.folder)]
        with hold_machine(placement):
            status = run_processes(spec, placement, attempt, "howmanygpus.train.parity.probe", options, DEADLINE_S)
        if status:
            raise SystemExit(max(status, 1))


if __name__ == "__main__":
    main()
