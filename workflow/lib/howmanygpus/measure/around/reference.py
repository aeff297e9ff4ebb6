"""
Measure the devices of a run's nodes by the reference kernel before the first run of each day, and keep the rates.

The cache has a file for each node, day (UTC) and kind of device, so that clones on one machine share it. A device that
the file lacks, such as a GPU that another job of the node had, is measured when it is first used. A run goes on without
the rates if they cannot be measured; its record says why.
"""

import dataclasses
import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from howmanygpus.base.secrets import shorten
from howmanygpus.files import hold_lock, write_json_atomic, write_text_atomic
from howmanygpus.measure.around.reference_kernel import PATIENCE_S, list_devices
from howmanygpus.measure.host.placement import Placement
from howmanygpus.measure.host.slurm import JOB
from howmanygpus.measure.launch.environment import set_again
from howmanygpus.measure.launch.launchers import srun
from howmanygpus.measure.records import AttemptFolder, now
from howmanygpus.measure.spec import LaunchSpec

FOLDER = "reference_kernel"
"""Folder in the cache, and in an attempt's folder."""
MAX_REASON = 300
"""Longest reason in a record, in characters."""


@dataclasses.dataclass(frozen=True)
class ReferencePlan:
    """How the kernel is measured.

    python: the interpreter that computes. cache: folder that all nodes can read and write. num_devices: CPU devices of
    a node. why: the reason for which nothing can be measured; empty otherwise.
    """

    python: str
    cache: str
    num_devices: int
    why: str = ""


class KernelError(Exception):
    """The reference kernel could not be measured. The message says why."""


def find_rates(spec: LaunchSpec, placement: Placement, attempt: AttemptFolder, plan: ReferencePlan) -> dict[str, Any]:
    """Return the entry `reference_kernel` of a run's record: the rates of today of all devices of its nodes."""
    nodes, day = list_node_names(spec, placement), now()[:10]
    kept: dict[str, dict | None] = {}
    problem = ""
    failures = [get_kept_path(plan, node, day, spec).with_suffix(".problem.txt") for node in nodes]
    try:
        kept |= {node: read_kept(get_kept_path(plan, node, day, spec)) for node in nodes}
        if is_due(spec, placement, plan, kept):
            problem = plan.why or next((path.read_text() for path in failures if path.exists()), "")
            if not problem:
                measure(spec, placement, attempt, plan)
                kept |= keep(attempt, plan, day, spec)
    except (OSError, KernelError) as error:
        said = " ".join(str(error).split())[:MAX_REASON]
        problem = shorten(f"{said}; to have it tried again before tomorrow, delete {failures[0]}")
        note_problem(failures, problem)
    if problem:
        print(f"reference kernel: {problem}", file=sys.stderr, flush=True)
    found = {"nodes": [record for node in nodes if (record := kept.get(node))]}
    return found | ({"problem": problem} if problem else {})


def note_problem(paths: list[Path], problem: str) -> None:
    """Leave a problem in the cache, so that only one run of the day waits for a kernel that fails."""
    with suppress(OSError):
        for path in paths:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_text_atomic(path, problem)


def list_node_names(spec: LaunchSpec, placement: Placement) -> list[str]:
    """Return the names of the run's nodes, as SLURM has them in a job; the first one is this node."""
    if placement.scheduler == "none":
        return [os.uname().nodename]
    return json.loads(os.environ[JOB])["nodes"][: spec.num_nodes]


def get_kept_path(plan: ReferencePlan, node: str, day: str, spec: LaunchSpec) -> Path:
    """Return the file in the cache with the rates of a node. CPU devices of other sizes have files of their own."""
    kind = spec.device_kind + (str(spec.cores_per_device) if spec.device_kind == "cpu" else "")
    return Path(plan.cache) / FOLDER / node / f"{day}_{kind}.json"


def read_kept(path: Path) -> dict[str, Any] | None:
    """Return the rates in a file of the cache; None if it does not exist or was damaged, so that it is written again.

    Raises OSError if it cannot be read.
    """
    with suppress(FileNotFoundError, json.JSONDecodeError, UnicodeDecodeError):
        return json.loads(path.read_text())
    return None


def is_due(spec: LaunchSpec, placement: Placement, plan: ReferencePlan, kept: dict[str, dict | None]) -> bool:
    """Return whether a device of the run's nodes has no rates of today.

    A step of a job is given as many of its devices as the run has, and nobody knows which of them, so that as many
    rates are enough. The devices of the job on its other nodes are not known here either.
    """
    here = list_devices(spec.device_kind, spec.cores_per_device, plan.num_devices, placement.bind_cores)
    own, *others = (record["devices"] if record else [] for record in kept.values())
    new = {device.name for device in here} - {device["device"] for device in own}
    num_needed = len(here) if placement.scheduler == "none" else min(spec.devices_per_node, len(here))
    return len(here) - len(new) < num_needed or any(len(devices) < num_needed for devices in others)


def measure(spec: LaunchSpec, placement: Placement, attempt: AttemptFolder, plan: ReferencePlan) -> None:
    """Run the kernel on each node, which leaves a file of its own in the attempt's folder.

    Raises KernelError if it fails or takes too long, and OSError if it cannot be started.
    """
    folder = attempt.path / FOLDER
    folder.mkdir(exist_ok=True)
    prefix = []
    if placement.scheduler != "none":
        # Its interpreter starts its own container, if it is in one.
        outside = dataclasses.replace(placement, container_options=[])
        prefix = [*srun(dataclasses.replace(spec, launcher="per_node"), outside), *set_again(os.environ)]
    command = [*prefix, plan.python, "-m", "howmanygpus.measure.around.reference_kernel", "--kind", spec.device_kind]
    command += ["--cores-per-device", str(spec.cores_per_device), "--num-devices", str(plan.num_devices)]
    command += ["--folder", str(folder), *([] if placement.bind_cores else ["--all-cores"])]
    try:
        subprocess.run(command, check=True, stderr=subprocess.PIPE, text=True, timeout=PATIENCE_S)
    except subprocess.CalledProcessError as error:
        said = error.stderr.strip().splitlines()
        raise KernelError(f"exit status {error.returncode}: {said[-1] if said else 'it said nothing'}") from None
    except subprocess.TimeoutExpired:
        raise KernelError(f"it was not done after {PATIENCE_S:.0f} s") from None


def keep(attempt: AttemptFolder, plan: ReferencePlan, day: str, spec: LaunchSpec) -> dict[str, dict]:
    """Add what was measured to the files in the cache, and return all rates of today by node."""
    kept = {}
    for measured in sorted((attempt.path / FOLDER).glob("*.json")):
        record = json.loads(measured.read_text())
        path = get_kept_path(plan, record["hostname"], day, spec)
        path.parent.mkdir(parents=True, exist_ok=True)
        with hold_lock(path.with_suffix(".lock")):
            earlier = read_kept(path)
            if earlier and earlier["program"] == record["program"]:
                new = {device["device"] for device in record["devices"]}
                record["devices"] += [device for device in earlier["devices"] if device["device"] not in new]
            write_json_atomic(path, record)
        kept[record["hostname"]] = record
    return kept
