"""Inspects a node from inside a job: what it offers, and where it differs from the machine file."""

import argparse
import json
import math
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pynvml

from howmanygpus.base.login_shell import ANNOUNCE, REACHED, explain_unreached
from howmanygpus.base.variables import list_variables
from howmanygpus.files import write_json_atomic
from howmanygpus.measure.allreduce import WHAT
from howmanygpus.measure.host.devices import describe_host
from howmanygpus.measure.host.gpus import get_board, list_gpu_uuids, read_memory_gib
from howmanygpus.measure.host.placement import Placement
from howmanygpus.measure.host.slurm import read_job, restore_environment
from howmanygpus.measure.launch.environment import build_environment
from howmanygpus.measure.launch.launch import run_processes
from howmanygpus.measure.launch.rendezvous import name_host
from howmanygpus.measure.records import AttemptFolder
from howmanygpus.measure.spec import LaunchSpec
from howmanygpus.site import slurm
from howmanygpus.site.jobs.endings import read_crash

PATIENCE_S = 20.0
STEP_S = 300.0
"""How long a step may take, in seconds: it waits for its start, and loads Python from a shared file system."""
GIB = 2**30
OF_PROCESSES = {"CUDA_VISIBLE_DEVICES", "NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"}
"""Variables that each process of a run sets for itself; see measure.launch.rank_process."""


def inspect_node(expected: dict, folder: Path) -> dict:
    """Return the record of a node.

    expected: keys of the machine file, see site.requests.expectation. folder: an existing one that all nodes can write.
    """
    uuids = list_gpu_uuids()
    job, partition_limit = find_job()
    return {
        "host": describe_host(uuids),
        "visible_devices": os.environ.get("CUDA_VISIBLE_DEVICES"),
        "gpus": [describe_gpu(uuid) for uuid in uuids],
        "topology": ask("nvidia-smi", "topo", "-m") if uuids else None,
        "num_cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(psutil.virtual_memory().total / GIB, 1),
        "interfaces": describe_interfaces(),
        "address": resolve(name_host(expected["rendezvous_suffix"])),
        "scratch": describe_scratch(expected["scratch"]),
        "srun": (srun := shutil.which("srun")),
        "step": try_step(expected, folder) if expected["starts_steps"] and srun and read_job() else None,
        "home": {"path": str(home := Path.home()), "is_folder": home.is_dir()},
        "modules": {" ".join(modules): try_modules(modules) for modules in expected["modules"]},
        "reaches_package_index": ask(sys.executable, "-m", "pip", "index", "versions", "pip") is not None,
        "job": {key: getattr(job, key, None) or None for key in ("id", "partition", "nodes", "allocated", "requested")},
        "partition_limit": partition_limit,
    }


def describe_gpu(uuid: str) -> dict:
    handle, board = pynvml.nvmlDeviceGetHandleByUUID(uuid), get_board(uuid)
    found = {"uuid": uuid, "name": pynvml.nvmlDeviceGetName(handle)}
    found["compute_capability"] = ".".join(map(str, pynvml.nvmlDeviceGetCudaComputeCapability(board)))
    memory_gib = read_memory_gib(uuid)
    found["memory_gib"] = None if memory_gib is None else round(memory_gib, 1)
    found["mig"] = False
    with suppress(pynvml.NVMLError):
        found["mig"] = bool(pynvml.nvmlDeviceGetMigMode(board)[0])
    return found


def describe_interfaces() -> dict[str, dict]:
    """Return IPv4 address and speed in Mbit/s of each network interface that is up; a speed of 0 is unknown."""
    states, found = psutil.net_if_stats(), {}
    for name, addresses in psutil.net_if_addrs().items():
        ipv4 = [address.address for address in addresses if address.family == socket.AF_INET]
        if ipv4 and name in states and states[name].isup:
            found[name] = {"address": ipv4[0], "mbit_per_s": states[name].speed}
    return found


def describe_scratch(scratch: str | None) -> dict | None:
    """Return the scratch folder's path, whether it is writable, and its free space in GiB; None if none is set."""
    if scratch is None:
        return None
    path = Path(os.path.expandvars(scratch))
    return {
        "path": str(path),
        "writable": os.access(path, os.W_OK),
        "free_gib": round(shutil.disk_usage(path).free / GIB, 1) if path.exists() else None,
    }


def try_modules(modules: list[str]) -> str:
    """Return why environment modules cannot be loaded here; empty if they can. Some versions of `module` end with 0."""
    script = ANNOUNCE + " && ".join(f"module load {shlex.quote(module)}" for module in modules)
    try:
        answer = subprocess.run(
            ["bash", "-lc", script], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if REACHED not in answer.stdout.splitlines():
        return explain_unreached()
    lines = [line.strip() for line in answer.stderr.splitlines() if line.strip()]
    has_failed = answer.returncode or any(re.search(r"error|unable to locate", line, re.IGNORECASE) for line in lines)
    return " ".join(lines)[:300] or f"exit status {answer.returncode}" if has_failed else ""


def try_step(expected: dict, folder: Path) -> dict:
    """Start a process as those of a run start. Return its variables, see base.variables, or else `problem`."""
    device = {"device": "probed", "device_kind": expected["kind"], "cores_per_device": expected["cores_per_device"]}
    size = {"num_gpus": expected["devices_per_node"], "num_nodes": 1, "global_batch_size": 1}
    spec = LaunchSpec(**WHAT | device | size | {"launcher": "per_node"})
    placement = Placement.without_data(expected["placement"])
    with tempfile.TemporaryDirectory(prefix=".step-", dir=folder, ignore_cleanup_errors=True) as own:
        attempt, seen = AttemptFolder(Path(own)), Path(own, "seen.json")
        try:
            status = run_processes(spec, placement, attempt, __name__, ["--file", str(seen)], STEP_S)
        except (OSError, RuntimeError, ValueError) as error:
            return {"problem": f"{type(error).__name__}: {error}"}
        if not seen.exists():
            said = attempt.said.read_text().splitlines() if attempt.said.exists() else []
            last = [line.strip() for line in said if line.strip() and not line.startswith("srun: ")][-1:]
            return {"problem": "; ".join([read_crash(attempt, status)["reason"], *last])}
        known = {*build_environment(spec, placement), *restore_environment(spec, placement), *OF_PROCESSES}
        variables = json.loads(seen.read_text())
        return {"variables": variables, "added": sorted(variables.keys() - known)}


def resolve(name: str) -> str | None:
    try:
        return socket.gethostbyname(name)
    except OSError:
        return None


def is_loopback(address: str | None) -> bool:
    return address is not None and address.startswith("127.")


def ask(*command: str) -> str | None:
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout if answer.returncode == 0 else None


def find_job() -> tuple[slurm.Job | None, str | None]:
    """Return this job and its partition's time limit as SLURM writes it; None for what is unknown."""
    job = None
    if job_id := slurm.read_job_id():
        with suppress(slurm.SlurmError):
            job = slurm.find_job(job_id)
            limits = [each.time_limit for each in slurm.list_partitions() if job and each.name == job.partition]
            return job, next(iter(limits), None)
    return job, None


def judge(found: dict, expected: dict) -> list[dict]:
    """Return what will not work (`error`) and what could be better (`warning`). Each text names the remedy."""
    errors = [*judge_devices(found, expected), *report_node(found, expected)]
    if not errors and (problem := (found["step"] or {}).get("problem")):
        errors.append(
            f"a step that srun starts as it starts a run fails: {problem}; correct the machine file, or show this to "
            "an administrator, who can change the TaskProlog and the plugins of the nodes"
        )
    findings = [{"level": "error", "text": text} for text in errors]
    return findings + [{"level": "warning", "text": text} for text in list_warnings(found, expected)]


def judge_devices(found: dict, expected: dict) -> Iterator[str]:
    num_devices, capability = expected["devices_per_node"], expected["compute_capability"]
    visible = [part for part in (found["visible_devices"] or "").split(",") if part]
    if expected["request"] is not None and len(visible) < num_devices:
        yield f"{num_devices} devices were asked for, the job sees {len(visible)}; correct `request`"
    if expected["kind"] == "cuda" and not found["gpus"]:
        yield "no NVIDIA driver answers in the job; correct `request` or `partition`"
    capabilities = {gpu["compute_capability"] for gpu in found["gpus"]}
    if expected["kind"] == "cuda" and capabilities and capability not in (None, *capabilities):
        yield f"compute_capability is {', '.join(sorted(capabilities))}, not {capability}; correct it"


def report_node(found: dict, expected: dict) -> Iterator[str]:
    num_devices, interface = expected["devices_per_node"], expected["network_interface"]
    num_cores, has_cores = num_devices * expected["cores_per_device"], found["num_cores"]
    if expected["bind_cores"] and has_cores < num_cores:
        yield (
            f"{num_cores} cores are wanted for {num_devices} devices, the job may use {has_cores}; lower "
            f"`cores_per_device` to {has_cores // num_devices}, or set `bind_cores: false`"
        )
    if interface not in (None, *found["interfaces"]):
        yield f"there is no network_interface {interface}; choose from {', '.join(found['interfaces'])}"
    if expected["max_nodes"] > 1 and interface is None and found["address"] is None:
        yield "the node's own name leads to no address; set `network_interface` or `rendezvous_suffix`"
    if expected["starts_steps"] and found["srun"] is None:
        yield (
            "srun is not in the PATH of jobs, and it starts the processes of runs; load SLURM's module in the shell "
            "that calls snakemake, or ask an administrator to put it into the PATH of the nodes"
        )
    if not found["home"]["is_folder"]:
        yield (
            f"the home folder {found['home']['path']} is not on the node, and frameworks write to it; call snakemake "
            "with HOME set to a folder that the nodes have"
        )
    for modules, problem in found["modules"].items():
        if problem:
            yield f"`module load {modules}` fails: {problem}; correct `modules`"
    if found["scratch"] and not found["scratch"]["writable"]:
        yield f"scratch: {found['scratch']['path']} cannot be written to; name another folder, or null"
    if (longest_min := slurm.to_minutes(found["partition_limit"])) < expected["longest_job_min"]:
        excess_min = math.ceil(expected["longest_job_min"] - longest_min)
        yield (
            f"jobs of {expected['longest_job_min']} minutes are planned, the partition ends them at "
            f"{found['partition_limit']}; lower `time_limit_min` of the studies by {excess_min}, or name another "
            "`partition`"
        )


def list_warnings(found: dict, expected: dict) -> Iterator[str]:
    gpus = found["gpus"] if expected["kind"] == "cuda" else []
    for environment in expected["environments"] if gpus else ():
        if refusal := find_refusal(environment, found["host"]["driver_version"]):
            yield f"{refusal}; its runs are reported as unsupported"
    if gpus and expected["compute_capability"] is None:
        capabilities = sorted({gpu["compute_capability"] for gpu in gpus})
        yield f'add compute_capability: "{", ".join(capabilities)}"'
    if expected["max_nodes"] > 1 and expected["network_interface"] is None and is_loopback(found["address"]):
        yield (
            f"the node's own name leads to {found['address']}, at which other nodes do not find it: Horovod with gloo "
            "cannot run on several nodes; set `network_interface`"
        )
    if added := (found["step"] or {}).get("added"):
        named = ", ".join(f"{name}={found['step']['variables'][name]}" for name in added)
        yield (
            f"every step of srun gets {named}, which its caller has not, as a site's TaskProlog adds it; runs have it "
            "too, and their records show it"
        )
    if any(gpu["mig"] for gpu in gpus):
        yield "the GPUs are split (MIG): utilisation will be missing"
    if expected["compute_nodes_have_network"] and not found["reaches_package_index"]:
        yield "no package index is reached from here: environments may need compute_nodes_have_network: false"


LOWEST_DRIVERS = {"cuda11": (450, 80), "cuda12": (525, 60), "cuda13": (580, 65)}
"""Lowest driver of each stack on Linux (NVIDIA, CUDA Toolkit release notes, minor version compatibility)."""


def get_stack(environment: str) -> str:
    """Return the stack of an environment, for example cuda13 for pytorch-cuda13."""
    return environment.rpartition("-")[2]


def find_refusal(environment: str, driver: str | None) -> str:
    """Return why a driver cannot run an environment; empty if it can, or if CUDA or the driver is unknown."""
    stack = get_stack(environment)
    if stack not in LOWEST_DRIVERS or driver is None:
        return ""
    lowest = LOWEST_DRIVERS[stack]
    if tuple(map(int, driver.split(".")[:2])) >= lowest:
        return ""
    return f"{environment} needs driver {lowest[0]}.{lowest[1]} or later, the node has {driver}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the variables that a process of a run has; see try_step.")
    parser.add_argument("--file", type=Path, required=True, help="JSON file to write")
    write_json_atomic(parser.parse_args().file, list_variables())


if __name__ == "__main__":
    main()
