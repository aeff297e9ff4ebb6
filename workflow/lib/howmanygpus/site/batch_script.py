"""
Batch scripts: of a configuration, to be pasted, and of a planned run, to be submitted in place of Snakemake's job.

The first says what a run of a configuration requests on this cluster, and how it is started.

The requests are those of the study's own jobs (site.requests). The program to start is the user's, by whatever name; a
study of the user's program has its command, started as the study's runs start it.
"""

import math
import shlex
import sys
from pathlib import Path
from typing import Any

from howmanygpus.clone import LIBRARY
from howmanygpus.measure.launch.launchers import count_processes_per_node
from howmanygpus.measure.program.command import build_shell, fill_command
from howmanygpus.measure.program.spec import ProgramSpec
from howmanygpus.measure.spec import INDEPENDENT
from howmanygpus.site.machine import Machine
from howmanygpus.site.requests import JobSize, job_resources
from howmanygpus.site.retrying import FIRST

OPTIONS = {
    "nodes": "--nodes={}",
    "tasks": "--ntasks={}",
    "cpus_per_task": "--cpus-per-task={}",
    "gres": "--gres={}",
    "mem_mb": "--mem={}M",
    "slurm_partition": "--partition={}",
    "slurm_account": "--account={}",
    "constraint": "--constraint={}",
    "qos": "--qos={}",
}
"""Options of sbatch, by the resource of the executor plugin that requests the same."""
TIME_FACTOR = 1.5
"""Requested time over the longest wall time that was measured."""
STARTS = {
    "plain": ["srun --ntasks=1 --cpus-per-task={cores_per_node} python train.py"],
    "per_node": ["srun --cpus-per-task={cores_per_process} python train.py"],
    "per_device": [
        'head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)',
        "srun --ntasks={num_nodes} --ntasks-per-node=1 --cpus-per-task={cores_per_node} \\",
        "  torchrun --nnodes={num_nodes} --nproc-per-node={devices_per_node} --rdzv-backend=c10d \\",
        '  --rdzv-id="$SLURM_JOB_ID" --rdzv-endpoint="$head:{port}" train.py',
    ],
    "horovodrun": [
        "hosts=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | sed 's/$/:{devices_per_node}/' | paste -sd,)",
        'horovodrun -np {num_gpus} -H "$hosts" python train.py',
    ],
    "mpirun": ["mpirun -np {num_gpus} python train.py"],
    INDEPENDENT: [
        "# a training of its own on each device",
        "srun --cpus-per-task={cores_per_process} bash -c \\",
        "  'CUDA_VISIBLE_DEVICES=$(cut -d, -f$((SLURM_LOCALID + 1)) <<< $CUDA_VISIBLE_DEVICES) python train.py'",
    ],
}
"""Lines that start a training program on all devices of a job, by the launcher of the framework."""
PORT = "$((20000 + SLURM_JOB_ID % 12000))"
"""A port of the first node that no other job there takes, below those of outgoing connections."""
PROGRAMS = {
    "plain": "srun --ntasks=1 --cpus-per-task={cores_per_node}",
    "per_node": "srun --cpus-per-task={cores_per_process}",
    "per_device": "srun --cpus-per-task={cores_per_process}",
    "mpirun": "mpirun -np {num_gpus} --bind-to none --map-by ppr:{devices_per_node}:node",
}
"""What starts the processes of a user's program, by launcher."""
RANKS = {
    **dict.fromkeys(("per_node", "per_device"), ("$SLURM_PROCID", "$SLURM_LOCALID", "$SLURM_NTASKS", "$SLURM_NODEID")),
    "mpirun": (
        *("$OMPI_COMM_WORLD_RANK", "$OMPI_COMM_WORLD_LOCAL_RANK", "$OMPI_COMM_WORLD_SIZE"),
        "$((OMPI_COMM_WORLD_RANK / {devices_per_node}))",
    ),
}
"""Values of RANK, LOCAL_RANK, WORLD_SIZE and NODE_RANK of each process, by launcher."""


def make_batch_script(spec: dict[str, Any], longest_wall_s: float, machine: Machine, account: str | None = None) -> str:
    """Return the text of a batch script.

    spec: that of a planned run. longest_wall_s: of its configuration's runs. account: which is charged; None for the
    default of the user.
    """
    size = JobSize(
        device=machine.device(spec["device"]),
        launcher=spec["launcher"],
        num_gpus=spec["num_gpus"],
        num_nodes=spec["num_nodes"],
        limit_min=math.ceil(TIME_FACTOR * longest_wall_s / 60),
    )
    requested = job_resources(machine, size, FIRST) | {"slurm_account": account}
    head = list_options(requested)
    axes = spec.get("program", {}).get("axes", {})
    names = ", ".join([spec["framework"], *(f"{axis} {value}" for axis, value in axes.items())]).replace("\n", " ")
    what = f"{names}, {spec['num_gpus']} x {spec['device']}, {spec['per_device_batch_size']} per device"
    options = [f"#SBATCH {option}" for option in (f"--job-name={spec['study']}", *head)]
    return "\n".join(["#!/bin/bash", *options, "", f"# {what}", *_start(spec), ""])


def list_options(requested: dict[str, Any]) -> list[str]:
    """Return the options of sbatch for the resources of a job, see site.requests.job_resources."""
    found = [option.format(requested[name]) for name, option in OPTIONS.items() if requested.get(name) is not None]
    return [*found, f"--time={requested['runtime']}", *map(shlex.quote, shlex.split(requested["slurm_extra"] or ""))]


def make_run_script(run: str, requested: dict[str, Any], command: list[str], folder: Path, log: Path) -> str:
    """Return the text of a batch script that does one run without Snakemake.

    run: its path below results/runs/. requested: the resources of its job. command: the script of the rule `train` with
    its options. folder: that of the call. log: file for all output of the job.
    """
    options = [f"--job-name={run.replace('/', '-')}", f"--chdir={folder}", f"--output={log}"]
    head = [f"#SBATCH {option}" for option in (*map(shlex.quote, options), *list_options(requested))]
    variables, call = f"PYTHONPATH={shlex.quote(str(LIBRARY))}", shlex.join([sys.executable, *command])
    return "\n".join(["#!/bin/bash", *head, "", f"# {run}", f"{variables} exec {call}", ""])


def _start(spec: dict[str, Any]) -> list[str]:
    devices_per_node = spec["num_gpus"] // spec["num_nodes"]
    values = {name: spec[name] for name in ("num_gpus", "num_nodes")}
    values |= {"devices_per_node": devices_per_node, "cores_per_node": spec["cores_per_device"] * devices_per_node}
    processes_per_node = count_processes_per_node(spec["launcher"], devices_per_node)
    values |= {"cores_per_process": values["cores_per_node"] // processes_per_node, "port": PORT}
    if "program" in spec:
        return _start_program(ProgramSpec(**spec), values)
    return [line.format(**values) for line in STARTS[spec["launcher"]]]


def _start_program(spec: ProgramSpec, values: dict[str, Any]) -> list[str]:
    """Return the lines that start a user's program with the variables that the workflow gives it."""
    where = {name: f"${name}" for name in ("MASTER_ADDR", "MASTER_PORT")}
    lines = [fill_command(spec, where).strip()]
    if spec.launcher in RANKS:
        names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "NODE_RANK")
        ranks = dict(zip(names, (rank.format(**values) for rank in RANKS[spec.launcher]), strict=True))
        ranks["LOCAL_WORLD_SIZE"] = str(1 if spec.launcher == "per_node" else spec.devices_per_node)
        lines.insert(0, "export " + " ".join(f"{name}={value}" for name, value in ranks.items()))
    return [
        f'export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1) MASTER_PORT={PORT}',
        f"export OMP_NUM_THREADS={spec.cores_per_device}",
        f"{PROGRAMS[spec.launcher].format(**values)} {shlex.join(build_shell(spec, chr(10).join(lines)))}",
    ]
