"""
One of several runs on one device each that go on at the same time on a node and exchange nothing.

All processes begin together, as measure.launch.rank_process has them wait for each other. Each then takes one device
and its cores, and goes on as the only process of a run on one device, with a folder of its own in that of the attempt.
The launcher makes one record of what they leave: that of the slowest device, with the totals over all devices.
"""

import argparse
import dataclasses
import json
import os
import sys
from pathlib import Path
from typing import Any

from howmanygpus.files import write_json_atomic
from howmanygpus.measure.host.processes import (
    BINDING_VARIABLE,
    DEVICE_CORES_VARIABLE,
    OWN_DEVICE,
    die_with_parent,
)
from howmanygpus.measure.records import AttemptFolder
from howmanygpus.measure.spec import RunSpec

TRAINING = "howmanygpus.measure.loop.train"


def find_folder(attempt: AttemptFolder, device: int) -> AttemptFolder:
    """Return the folder of the run on one device. device: its number on the node, from 0."""
    return AttemptFolder(attempt.path / f"device{device}")


def make_own_spec(spec: RunSpec) -> RunSpec:
    """Return the specification of the run on one device."""
    batch = spec.per_device_batch_size * spec.accumulate
    return dataclasses.replace(spec, num_gpus=1, global_batch_size=batch, launcher="per_device")


def take_device(device: int, device_kind: str) -> None:
    """Leave one device to this process, as if it were the only one of its run. device: its number on the node."""
    host, _, port = os.environ["HOWMANYGPUS_ADDRESSES"].split(",")[device].rpartition(":")
    os.environ |= {
        **{"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": host, "MASTER_PORT": port},
        **{"HOWMANYGPUS_ADDRESSES": f"{host}:{port}", OWN_DEVICE: str(device)},
    }
    if device_kind == "cuda":
        os.environ["CUDA_VISIBLE_DEVICES"] = os.environ["CUDA_VISIBLE_DEVICES"].split(",")[device]
    if BINDING_VARIABLE not in os.environ:
        os.environ[DEVICE_CORES_VARIABLE] = own = os.environ[DEVICE_CORES_VARIABLE].split(";")[device]
        os.sched_setaffinity(0, map(int, own.split(",")))


def join_runs(attempt: AttemptFolder, num_devices: int) -> None:
    """Leave one outcome, and the events, predictions and trace of one device, in the folder of their attempt.

    There is no outcome if a device has none, unless another one ran out of memory, which ends all.
    """
    folders = [find_folder(attempt, device) for device in range(num_devices)]
    for device, folder in enumerate(folders):
        if folder.error_of(0).exists():
            os.replace(folder.error_of(0), attempt.error_of(device))
        if folder.times_of(0).exists():
            times = json.loads(folder.times_of(0).read_text())
            write_json_atomic(attempt.times_of(device), times | {"rank": device})
    found = {
        device: json.loads(folder.outcome.read_text())
        for device, folder in enumerate(folders)
        if folder.outcome.exists()
    }
    failed = [device for device, outcome in found.items() if outcome["status"] != "completed"]
    if len(found) < num_devices:
        failed = [device for device in failed if found[device]["status"] == "out_of_memory"]
        if not failed:
            return
    chosen = failed[0] if failed else max(found, key=lambda device: found[device]["measured_s"])
    own = folders[chosen]
    for left, joined in (
        (own.events, attempt.events),
        (own.predictions_of(0), attempt.predictions_of(0)),
        (own.initial_weights, attempt.initial_weights),
        (own.final_weights, attempt.final_weights),
        (own.trace, attempt.trace),
    ):
        if left.exists():
            os.replace(left, joined)
    write_json_atomic(attempt.outcome, join_outcomes(found, chosen))


def join_outcomes(found: dict[int, dict[str, Any]], chosen: int) -> dict[str, Any]:
    """Return the outcome of all devices. found: outcomes by device. chosen: the device whose times it has."""
    outcome = dict(found[chosen])
    if outcome["reason"]:
        outcome["reason"] = f"device {chosen}: {outcome['reason']}"
    if "measured_s" not in outcome or not all("measured_s" in each for each in found.values()):
        return outcome
    peaks = [each["peak_memory_bytes"] for each in found.values() if each["peak_memory_bytes"] is not None]
    disturbance = {
        key: max((value for each in found.values() if (value := each["disturbance"][key]) is not None), default=None)
        for key in outcome["disturbance"]
    }
    return outcome | {
        "images_seen": sum(each["images_seen"] for each in found.values()),
        "wall_time_s": max(each["wall_time_s"] for each in found.values()),
        "peak_memory_bytes": max(peaks, default=None),
        "disturbance": disturbance,
        "num_processes": len(found),
        "devices": [
            {
                "images_per_s": compute_rate(each),
                **{key: each[key] for key in ("init_s", "measured_s", "train_s", "wall_time_s")},
            }
            for _, each in sorted(found.items())
        ],
    }


def compute_rate(outcome: dict[str, Any]) -> float | None:
    """Return the images per second of the measured steps on one device; None if it measured none."""
    if not outcome["measured_s"] or not outcome["steps"]:
        return None
    images = outcome["images_seen"] / outcome["steps"] * outcome["measured_steps"]
    return images / outcome["measured_s"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--attempt", required=True, help="folder of the attempt, holding spec.json")
    arguments, options = parser.parse_known_args()
    die_with_parent()
    device, attempt = int(os.environ["LOCAL_RANK"]), AttemptFolder(arguments.attempt)
    spec, own = RunSpec.read(attempt.spec), find_folder(attempt, device)
    Path(own.path).mkdir()
    write_json_atomic(own.spec, make_own_spec(spec).to_dict())
    take_device(device, spec.device_kind)
    os.execv(sys.executable, [sys.executable, "-m", TRAINING, "--attempt", str(own.path), *options])


if __name__ == "__main__":
    main()
