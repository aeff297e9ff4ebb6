"""Writes the job in which Snakemake does many runs on one node, from the profile."""

import re
import shlex
import sys
from pathlib import Path

from howmanygpus.clone import CLONE
from howmanygpus.config.errors import ConfigError, refuse, suggest
from howmanygpus.config.files import read_yaml
from howmanygpus.site.machine import Device, Machine
from howmanygpus.site.requests import asks_by_gres

ENDING_S = 600
"""Seconds before the end of the job at which Snakemake is told to finish the current run and to start no other."""
MIN_PART = 4
"""A shorter job gets the signal when this part of its time is left, because SLURM would send it at once otherwise."""
TIME_LIMIT = re.compile(r"(?:(?P<days>\d+)-)?(?P<parts>\d+(?::\d+){0,2})")
LOCAL_PROFILE = CLONE / "profiles" / "local"


def choose_device(machine: Machine, name: str | None) -> Device:
    """Return the device of that name, or the only one. Raises ConfigError if there is none, or if there are several."""
    known = ", ".join(sorted(machine.devices))
    if name is None and len(machine.devices) != 1:
        raise ConfigError(f"{machine.path}: devices: has {known or 'no entry'}; name the device of the job by --device")
    name = name or next(iter(machine.devices))
    if name not in machine.devices:
        raise ConfigError(f"--device: {name!r} is no device of {machine.path}; {suggest(name, machine.devices)}")
    return machine.devices[name]


def read_account(profile: Path) -> str | None:
    """Return the account that the profile names for all jobs. Raises ConfigError if the profile cannot be read."""
    path, key = profile / "config.yaml", "default-resources"
    values = read_yaml(path) or {}
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: the file has no keys at its top level; write the options of Snakemake, one a line")
    defaults = values.get(key) or {}
    if isinstance(defaults, list):
        for position, entry in enumerate(defaults):
            if not isinstance(entry, str) or "=" not in entry:
                raise refuse(f"{path}: {key}[{position}]", entry, "has no value", "write it as NAME=VALUE")
        defaults = dict(entry.split("=", 1) for entry in defaults)
    if not isinstance(defaults, dict):
        raise refuse(f"{path}: {key}", defaults, "has no names", "write NAME: VALUE below it")
    return defaults.get("slurm_account")


def read_ending_s(time_limit: str) -> int:
    """Return the seconds before the end of a job at which it gets the signal. time_limit: as sbatch takes it."""
    if not (found := TIME_LIMIT.fullmatch(time_limit)):
        return ENDING_S
    parts = [int(part) for part in found["parts"].split(":")]
    # One number is minutes, two are minutes and seconds; after days, the first is hours.
    padded = [*parts, 0, 0][:3] if found["days"] or len(parts) == 3 else [0, *parts, 0][:3]
    limit_s = int(found["days"] or 0) * 86400 + padded[0] * 3600 + padded[1] * 60 + padded[2]
    return min(ENDING_S, limit_s // MIN_PART) if limit_s else ENDING_S


def list_options(device: Device, account: str | None, time_limit: str) -> list[str]:
    """Return the options of sbatch for a job with all devices of a node."""
    options, count = device.options, device.devices_per_node
    request = options["request"].format(n=count) if options["request"] else None
    is_exclusive = options["nodes"] == "exclusive"
    chosen = {
        "--partition": options["partition"],
        "--constraint": options["constraint"],
        "--qos": options["qos"],
        "--account": account,
        "--gres": request if asks_by_gres(device) else None,
        # SLURM gives a job all memory of its node for 0.
        "--mem": 0 if is_exclusive else options["memory_per_device_mb"] * count,
        "--cpus-per-task": device.cores_per_device * count,
        "--time": time_limit,
    }
    fixed = ["--nodes=1", "--ntasks=1", f"--signal=B:TERM@{read_ending_s(time_limit)}", "--job-name=howmanygpus-packed"]
    given = [f"{option}={value}" for option, value in chosen.items() if value is not None]
    further = [*shlex.split(options["sbatch_options"]), *([request] if request and not asks_by_gres(device) else [])]
    exclusive = ["--exclusive"] if is_exclusive else []
    return [*fixed, "--output=howmanygpus-packed-%j.log", *given, *exclusive, *further]


def write_script(machine_file: Path, arguments: list[str]) -> str:
    """Return the script of the job. Snakemake takes the place of its shell, so that it gets the signal."""
    options = ["--profile", str(LOCAL_PROFILE), "--config", f"machine={machine_file}", "packed=true"]
    call = [sys.executable, "-m", "snakemake", *arguments, "--snakefile", str(CLONE / "Snakefile"), *options]
    return f"#!/bin/bash\nexec {shlex.join(call)}\n"
