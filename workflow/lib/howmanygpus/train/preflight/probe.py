"""What a node offers, seen from inside a job, and where it differs from the machine file."""

import os
import shutil
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pynvml

from howmanygpus.train.host.devices import describe_host
from howmanygpus.train.host.gpus import find_board, list_gpu_uuids
from howmanygpus.train.host.slurm import ask_for_job, find_job_id
from howmanygpus.train.preflight.stacks import find_refusal

PATIENCE_S = 20.0
GIB = 2**30


def look_around(expected: dict) -> dict:
    """Everything that is recorded of a node. expected: keys of the machine file, see plan.jobs.expectation."""
    uuids = list_gpu_uuids()
    job_id = find_job_id()
    job = ask_for_job(job_id) if job_id else {}
    return {
        "host": describe_host(uuids),
        "visible_devices": os.environ.get("CUDA_VISIBLE_DEVICES"),
        "gpus": [describe_gpu(uuid) for uuid in uuids],
        "topology": ask("nvidia-smi", "topo", "-m") if uuids else None,
        "num_cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(psutil.virtual_memory().total / GIB, 1),
        "interfaces": describe_interfaces(),
        "address": resolve(socket.gethostname() + expected["rendezvous_suffix"]),
        "scratch": describe_scratch(expected["scratch"]),
        "reaches_package_index": ask(sys.executable, "-m", "pip", "index", "versions", "pip") is not None,
        "job": {key: job.get(key) for key in ("JobId", "Partition", "NodeList", "TRES", "TresPerNode")},
        "partition_limit": find_partition_limit(job.get("Partition")),
    }


def describe_gpu(uuid: str) -> dict:
    handle, board = pynvml.nvmlDeviceGetHandleByUUID(uuid), find_board(uuid)
    found = {"uuid": uuid, "name": pynvml.nvmlDeviceGetName(handle)}
    found["compute_capability"] = ".".join(map(str, pynvml.nvmlDeviceGetCudaComputeCapability(board)))
    found["memory_gib"] = round(pynvml.nvmlDeviceGetMemoryInfo(handle).total / GIB, 1)
    found["mig"] = False
    with suppress(pynvml.NVMLError):
        found["mig"] = bool(pynvml.nvmlDeviceGetMigMode(board)[0])
    return found


def describe_interfaces() -> dict[str, dict]:
    """IPv4 address and speed in Mbit/s of each network interface that is up; a speed of 0 is unknown."""
    states, found = psutil.net_if_stats(), {}
    for name, addresses in psutil.net_if_addrs().items():
        ipv4 = [address.address for address in addresses if address.family == socket.AF_INET]
        if ipv4 and name in states and states[name].isup:
            found[name] = {"address": ipv4[0], "mbit_per_s": states[name].speed}
    return found


def describe_scratch(scratch: str | None) -> dict | None:
    """Where the folder is, whether it can be written to, and how much is free; None where none is asked for."""
    if scratch is None:
        return None
    path = Path(os.path.expandvars(scratch))
    return {
        "path": str(path),
        "writable": os.access(path, os.W_OK),
        "free_gib": round(shutil.disk_usage(path).free / GIB, 1) if path.exists() else None,
    }


def resolve(name: str) -> str | None:
    try:
        return socket.gethostbyname(name)
    except OSError:
        return None


def ask(*command: str) -> str | None:
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout if answer.returncode == 0 else None


def find_partition_limit(partition: str | None) -> str | None:
    """Longest time that the partition gives a job, in SLURM's words."""
    for word in (ask("scontrol", "--oneliner", "show", "partition", partition) or "").split() if partition else ():
        if word.startswith("MaxTime="):
            return word.partition("=")[2]
    return None


def to_minutes(limit: str | None) -> float:
    """Minutes of [days-]hours:minutes:seconds; infinite for anything else, such as UNLIMITED."""
    days, _, rest = (limit or "").rpartition("-")
    parts = rest.split(":")
    if len(parts) != 3 or not all(part.isdigit() for part in parts):
        return float("inf")
    hours, minutes, seconds = map(int, parts)
    return int(days or 0) * 1440 + hours * 60 + minutes + seconds / 60


def judge(found: dict, expected: dict) -> list[dict]:
    """What will not work (`error`) and what is not as one would have it (`warning`)."""
    findings = []

    def add(level: str, text: str) -> None:
        findings.append({"level": level, "text": text})

    num_devices, gpus = expected["devices_per_node"], found["gpus"]
    if expected["request"] is not None:
        visible = [part for part in (found["visible_devices"] or "").split(",") if part]
        if len(visible) < num_devices:
            add("error", f"{num_devices} devices were asked for, the job sees {len(visible)}; correct `request`")
    if expected["kind"] == "cuda":
        if not gpus:
            add("error", "no NVIDIA driver answers in the job")
        for environment in expected["environments"] if gpus else ():
            if refusal := find_refusal(environment, found["host"]["driver_version"]):
                add("error", refusal)
        capabilities = {gpu["compute_capability"] for gpu in gpus}
        if gpus and expected["compute_capability"] not in (None, *capabilities):
            add(
                "error",
                f"compute_capability is {', '.join(sorted(capabilities))}, not {expected['compute_capability']}",
            )
        if gpus and expected["compute_capability"] is None:
            add("warning", f'add compute_capability: "{", ".join(sorted(capabilities))}"')
        if any(gpu["mig"] for gpu in gpus):
            add("warning", "the GPUs are split (MIG): utilisation will be missing")
    num_cores = num_devices * expected["cores_per_device"]
    if expected["bind_cores"] and found["num_cores"] < num_cores:
        add("error", f"{num_cores} cores are wanted for {num_devices} devices, the job may use {found['num_cores']}")
    if expected["network_interface"] not in (None, *found["interfaces"]):
        add(
            "error",
            f"there is no network_interface {expected['network_interface']}, but {', '.join(found['interfaces'])}",
        )
    if expected["max_nodes"] > 1 and expected["network_interface"] is None and found["address"] is None:
        add("error", "the node's own name leads to no address: set network_interface or rendezvous_suffix")
    if found["scratch"] and not found["scratch"]["writable"]:
        add("error", f"scratch: {found['scratch']['path']} cannot be written to")
    if expected["compute_nodes_have_network"] and not found["reaches_package_index"]:
        add("warning", "no package index is reached from here: environments may need compute_nodes_have_network: false")
    if to_minutes(found["partition_limit"]) < expected["longest_job_min"]:
        limit = found["partition_limit"]
        add("error", f"jobs of {expected['longest_job_min']} minutes are planned, the partition ends them at {limit}")
    return findings
