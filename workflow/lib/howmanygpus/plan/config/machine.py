"""The machine file: which devices there are, and how many cores each gets."""

import math
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from howmanygpus.plan.config.errors import ConfigError, check_schema, refuse, suggest
from howmanygpus.plan.config.schema import fill_defaults, read_schema
from howmanygpus.train.host.devices import find_compute_capability, list_gpu_uuids

DEFAULT_MACHINE_FILE = Path("profiles/local/machine.yaml")


@dataclass(frozen=True)
class Device:
    """One kind of device, as far as runs are planned by it; `options` holds all keys of the machine file.

    compute_capability: of CUDA devices, where it is known, such as "8.0".
    """

    devices_per_node: int = 0
    cores_per_device: int = 1
    kind: str = "cpu"
    max_nodes: int = 1
    compute_capability: str | None = None
    options: dict = field(default_factory=dict, compare=False)

    @property
    def count(self) -> int:
        """Most devices of one run."""
        return self.devices_per_node * self.max_nodes

    def num_nodes(self, num_gpus: int) -> int:
        """As few nodes as hold so many devices; one where the machine file does not know the device."""
        return max(1, math.ceil(num_gpus / self.devices_per_node)) if self.devices_per_node else 1


PRICING = ("billed", "price_per_hour", "currency")
UNKNOWN_DEVICES = {"cpu": Device(0, 1), "cuda": Device(0, 1, "cuda")}


@dataclass(frozen=True)
class Machine:
    """devices: by the names that runs bear; a device the machine lacks is absent. slurm: what its jobs share.

    packed: runs start inside the allocation that this process is in. environments: interpreters that are there.
    """

    path: str
    devices: dict[str, Device]
    scheduler: str = "none"
    slurm: dict = field(default_factory=dict)
    packed: bool = False
    environments: dict[str, dict] = field(default_factory=dict)

    @property
    def is_cluster(self) -> bool:
        return self.scheduler != "none"

    @property
    def submits(self) -> bool:
        """Whether each run is a job."""
        return self.is_cluster and not self.packed

    def device(self, name: str) -> Device:
        """The device, or one without any where the machine lacks it."""
        return self.devices.get(name) or UNKNOWN_DEVICES["cpu" if name == "cpu" else "cuda"]

    def billing(self, name: str) -> dict | None:
        """What howmanygpus.report.accounting wants to know of a cluster's device."""
        if not self.is_cluster or name not in self.devices:
            return None
        return {key: self.devices[name].options[key] for key in ("devices_per_node", *PRICING)}

    def resolve(self, device: str, place: str) -> str:
        """`auto` is cuda where there is a GPU, else cpu; raises ConfigError for a name that nothing bears."""
        if device == "auto":
            if self.is_cluster:
                named = ", ".join(sorted(self.devices)) or "none yet"
                raise refuse(
                    *(place, device, "looks at this machine, but runs are jobs on others"),
                    f"name a device of {self.path} ({named})",
                )
            return "cuda" if "cuda" in self.devices else "cpu"
        if device not in self.devices and device not in UNKNOWN_DEVICES:
            raise refuse(
                place,
                device,
                f"is no device of {self.path}",
                suggest(device, {"auto", *UNKNOWN_DEVICES, *self.devices}),
            )
        return device


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


def read_machine(path: Path, packed: bool = False) -> Machine:
    """Validate a machine file and look at this machine for what it leaves open."""
    schema = read_schema("machine")
    values = yaml.safe_load(Path(path).read_text()) or {}
    check_schema(values, schema, root=str(path))
    values = fill_defaults(values, schema, schema)
    declared = dict(values["devices"])
    if values["scheduler"] == "none":
        default = fill_defaults({}, schema["$defs"]["device"], schema)
        declared = {"cpu": default, "cuda": default} | declared
    devices = {name: _complete_device(name, options, values["scheduler"], path) for name, options in declared.items()}
    present = {name: device for name, device in devices.items() if device.devices_per_node}
    if packed and values["scheduler"] == "none":
        raise ConfigError(f"packed: true needs the machine file of a cluster, not {path}; name it with `machine`")
    return Machine(str(path), present, values["scheduler"], values["slurm"], packed, values["environments"])


def _complete_device(name: str, options: dict, scheduler: str, path: Path) -> Device:
    kind = options["kind"] or ("cpu" if name == "cpu" else "cuda")
    if scheduler == "none":
        options = options | _look_at_machine(kind, options)
    for key in ("devices_per_node", "cores_per_device"):
        if options[key] is None:
            raise ConfigError(f"{path}: devices.{name}.{key} is missing: with a scheduler nobody can look; add it")
    if scheduler == "slurm" and kind == "cuda" and options["request"] is None:
        raise ConfigError(
            f"{path}: devices.{name}.request is missing: no job would be given a GPU; add one such as gpu:{name}:{{n}}"
        )
    keys = ("devices_per_node", "cores_per_device", "max_nodes", "compute_capability")
    return Device(**{key: options[key] for key in keys}, kind=kind, options=options)


def _look_at_machine(kind: str, options: dict) -> dict:
    """What the machine file leaves open, for the devices of this machine."""
    num_cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    if kind == "cpu":
        cores_per_device = options["cores_per_device"] or 1
        count = options["devices_per_node"] or num_cores // cores_per_device
        return {"devices_per_node": count, "cores_per_device": cores_per_device}
    num_gpus = options["devices_per_node"] or len(list_gpu_uuids())
    return {
        "devices_per_node": num_gpus,
        "cores_per_device": options["cores_per_device"] or max(num_cores // max(num_gpus, 1), 1),
        "compute_capability": options["compute_capability"] or find_compute_capability(),
    }
