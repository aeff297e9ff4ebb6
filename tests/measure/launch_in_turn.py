"""
Start a framework once for several runs, which its processes do one after the other, and publish every run.

A framework takes longer to start than to do a small run. The arguments are the folders of attempts with equal devices
and launchers; each run is published to the folder `run` beside its attempt. Runs in the framework's environment.
"""

import json
import os
import sys
import time
from pathlib import Path

from howmanygpus.measure.host.devices import assign_devices, describe_host, describe_topology
from howmanygpus.measure.host.placement import Placement
from howmanygpus.measure.launch.launch import TRAINING, lock_machine, now, publish, read_processes, run_processes
from howmanygpus.measure.records import AttemptFolder
from howmanygpus.measure.spec import RunSpec

MODULE = "measure.train_in_turn"
DEADLINE_S = 300.0


def main() -> None:
    attempts = {AttemptFolder(Path(folder)): RunSpec.read(Path(folder) / "spec.json") for folder in sys.argv[1:]}
    first, spec = next(iter(attempts.items()))
    placement = Placement.read(first.placement)
    record = {"pid": os.getpid(), "started_at": now(), "parity": "not_checked", "host": describe_host([])}
    record |= {"topology": describe_topology(assign_devices(spec, placement.bind_cores))}
    checked = {attempt: TRAINING.verify(own) for attempt, own in attempts.items()}
    with lock_machine(placement, "a test"):
        options = ["--started-at", repr(time.time()), "--attempts", *sys.argv[1:]]
        status = run_processes(spec, placement, first, MODULE, options, DEADLINE_S)
    if status != 0:
        sys.exit(status)
    met = read_processes(first)
    for attempt, own in attempts.items():
        outcome = json.loads(attempt.outcome.read_text())
        processes = [place | measured for place, measured in zip(met, read_processes(attempt), strict=True)]
        of_run = record | checked[attempt] | {"spec": own.to_dict(), "processes": processes}
        of_run |= outcome | {"finished_at": now()}
        publish(own, attempt, attempt.path.with_name("run"), of_run, TRAINING)


if __name__ == "__main__":
    main()
