"""Start a framework's processes at the gate's task, on each number of devices in turn."""

import argparse
import json
from pathlib import Path

from trainbench.devices import assign_devices
from trainbench.launch import build_module_command, hold_machine, run_processes
from trainbench.parity.task import OPTIMIZERS, make_spec
from trainbench.processes import die_with_parent
from trainbench.records import AttemptFolder

DEADLINE_S = 1800.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--framework", type=json.loads, required=True, help="JSON: framework, family, launcher")
    parser.add_argument("--cell", type=json.loads, required=True, help="JSON: what is checked, see task.make_spec")
    parser.add_argument("--task", type=Path, required=True, help="folder of the task's data and weights")
    parser.add_argument("--num-devices", type=int, required=True)
    parser.add_argument("--folder", type=Path, required=True, help="where to leave what was seen")
    arguments = parser.parse_args()
    die_with_parent()
    for optimizer in OPTIMIZERS:
        spec = make_spec(arguments.framework, arguments.cell, arguments.num_devices, optimizer, arguments.task)
        path = arguments.folder / f"{optimizer}.spec.json"
        path.write_text(json.dumps(spec.to_dict()))
        options = ["--spec", str(path), "--optimizer", optimizer, "--folder", str(arguments.folder)]
        command = build_module_command(spec, "trainbench.parity.probe", options)
        with hold_machine():
            status = run_processes(command, spec, assign_devices(spec), AttemptFolder(arguments.folder), DEADLINE_S)
        if status:
            raise SystemExit(max(status, 1))


if __name__ == "__main__":
    main()
