"""The machine file: which devices there are, and how many cores each gets."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

import yaml

from benchplan.defaults import fill_defaults, read_schema
from benchplan.errors import ConfigError, check_schema
from trainbench.devices import find_compute_capability, list_gpu_uuids

DEFAULT_MACHINE_FILE = Path("profiles/local/machine.yaml")


@dataclass(frozen=True)
class Device:
    """compute_capability: of CUDA devices, where it is known, such as "8.0"."""

    count: int
    cores_per_device: int
    compute_capability: str | None = None


@dataclass(frozen=True)
class Machine:
    """devices: by the names that runs bear; a device the machine lacks is absent."""

    path: str
    devices: dict[str, Device]

    def capability(self, device: str) -> str | None:
        return self.devices[device].compute_capability if device in self.devices else None

    def resolve(self, device: str) -> str:
        """`auto` is cuda where there is a GPU, else cpu."""
        return ("cuda" if "cuda" in self.devices else "cpu") if device == "auto" else device


def find_machine_file(given: str | None, command_line: list[str]) -> Path:
    """The file given in config, else machine.yaml beside the profile of the command line, else the local one.

    Jobs that Snakemake starts have no --profile; they find the file through HOWMANYGPUS_MACHINE, set here.
    """
    path = Path(given or _beside_profile(command_line) or os.environ.get("HOWMANYGPUS_MACHINE") or DEFAULT_MACHINE_FILE)
    if not path.exists():
        raise ConfigError(f"machine: {path} does not exist; name an existing machine file or leave `machine` out")
    os.environ["HOWMANYGPUS_MACHINE"] = str(path)
    return path


def _beside_profile(command_line: list[str]) -> str | None:
    profile = os.environ.get("SNAKEMAKE_PROFILE")
    for position, word in enumerate(command_line):
        if word == "--profile" and position + 1 < len(command_line):
            profile = command_line[position + 1]
        elif word.startswith("--profile="):
            profile = word.partition("=")[2]
    path = Path(profile or "") / "machine.yaml"
    return str(path) if profile and path.exists() else None


def read_machine(path: Path) -> Machine:
    """Validate a machine file and look at this machine for what it leaves open."""
    schema = read_schema("machine")
    values = yaml.safe_load(Path(path).read_text()) or {}
    check_schema(values, schema, root=str(path))
    devices = fill_defaults(values, schema, schema)["devices"]
    return Machine(str(path), look_at_machine({name: devices.get(name, {}) for name in ("cpu", "cuda")}))


def look_at_machine(declared: dict[str, dict]) -> dict[str, Device]:
    num_cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count()
    num_gpus = declared["cuda"].get("count") or len(list_gpu_uuids())
    cores_per_cpu_device = declared["cpu"].get("cores_per_device") or 1
    num_cpu_devices = declared["cpu"].get("count") or num_cores // cores_per_cpu_device
    devices = {"cpu": Device(num_cpu_devices, cores_per_cpu_device)}
    if num_gpus:
        cores_per_gpu = declared["cuda"].get("cores_per_device") or max(num_cores // num_gpus, 1)
        capability = declared["cuda"].get("compute_capability") or find_compute_capability()
        devices["cuda"] = Device(num_gpus, cores_per_gpu, capability)
    return devices
