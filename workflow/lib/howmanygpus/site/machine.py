"""Reads the machine file, which says what devices exist, how many cores each has, and which options sbatch gets."""

import ctypes
import math
import os
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from howmanygpus.clone import choose_file
from howmanygpus.config.errors import ConfigError, check_schema, refuse, suggest
from howmanygpus.config.files import expand_path, read_yaml
from howmanygpus.config.findings import Finding
from howmanygpus.config.schema import fill_defaults, read_schema
from howmanygpus.measure.host.limits import count_cores_in_quota
from howmanygpus.registry import FRAMEWORKS

DEFAULT_MACHINE_FILE = "profiles/local/machine.yaml"


class Placed(Protocol):
    """A run, as far as its place is concerned. num_nodes: None for the fewest that hold its devices."""

    @property
    def device(self) -> str: ...

    @property
    def num_gpus(self) -> int: ...

    @property
    def num_nodes(self) -> int | None: ...


@dataclass(frozen=True)
class Device:
    """One kind of device, with the attributes that the planner uses.

    compute_capability: such as "8.0"; None for CPUs, and for CUDA devices if it is unknown.
    is_split: whether it is a part of a GPU (MIG). options: all keys of the device in the machine file.
    """

    devices_per_node: int = 0
    cores_per_device: int = 1
    kind: str = "cpu"
    max_nodes: int = 1
    compute_capability: str | None = None
    is_split: bool = False
    options: dict = field(default_factory=dict, compare=False)

    @property
    def count(self) -> int:
        """The maximum number of devices for one run, as the machine file has it."""
        return self.devices_per_node * self.max_nodes

    def num_nodes(self, num_gpus: int) -> int:
        """Return the smallest number of nodes with that many devices, or 1 if the machine has no such device."""
        return max(1, math.ceil(num_gpus / self.devices_per_node)) if self.devices_per_node else 1

    def compute_nearest_counts(self, num_gpus: int) -> list[int]:
        """Return the nearest numbers of devices, below and above, that spread evenly over nodes."""
        below, above = range(num_gpus - 1, 0, -1), range(num_gpus + 1, self.count + 1)
        found = [next((n for n in counts if n % self.num_nodes(n) == 0), None) for counts in (below, above)]
        return [count for count in found if count is not None]


@dataclass(frozen=True)
class Excess:
    """The number of devices that this machine has, and the finding that the machine file names more."""

    present: int
    finding: Finding


PRICING = ("billed", "price_per_hour", "currency")
UNKNOWN_DEVICES = {"cpu": Device(0, 1), "cuda": Device(0, 1, "cuda")}
GPU_WORDS = ("gpu", "gpus", "nvidia")
"""Words that users write for `cuda` or for a GPU of the machine file."""
NEEDS_VALUE = re.compile(r"--(container-(image|mounts|workdir|name)|uenv|view)")
"""Options of srun that start a container (pyxis, uenv), as they must not stand in a command of the machine file."""
PILLOW_SIMD = "pillow-simd"
"""The environment that no framework uses; see howmanygpus.prepare.options."""


@dataclass(frozen=True)
class Machine:
    """A validated machine file.

    devices: devices by the names that runs use; only devices that the machine has.
    missing: why this machine has none of a device, for the other devices of the file.
    slurm: settings that all jobs of a cluster share.
    packed: whether runs start inside the SLURM allocation of this process.
    environments: existing interpreters that replace environments.
    excesses: devices of which the file has more than this machine.
    published_weights: folder or address of the files that torchvision publishes.
    telemetry_interval_s: seconds between two samples of a run's devices.
    reference_kernel: whether each node's devices are measured once a day.
    """

    path: str
    devices: dict[str, Device]
    scheduler: str = "none"
    slurm: dict = field(default_factory=dict)
    packed: bool = False
    environments: dict[str, dict] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    excesses: dict[str, "Excess"] = field(default_factory=dict)
    published_weights: str = ""
    telemetry_interval_s: float = 0.1
    reference_kernel: bool = True

    @property
    def is_cluster(self) -> bool:
        return self.scheduler != "none"

    @property
    def submits(self) -> bool:
        """Whether each run is submitted as a job of its own."""
        return self.is_cluster and not self.packed

    def device(self, name: str) -> Device:
        """Return the device of that name, or a placeholder with a count of 0 if the machine has no such device."""
        return self.devices.get(name) or UNKNOWN_DEVICES["cpu" if name == "cpu" else "cuda"]

    def count(self, name: str) -> int:
        """Return the maximum number of devices for one run."""
        count = self.device(name).count
        return min(count, self.excesses[name].present) if name in self.excesses else count

    def count_nodes(self, run: Placed) -> int:
        """Return the number of nodes of a run."""
        return run.num_nodes or self.device(run.device).num_nodes(run.num_gpus)

    def billing(self, name: str) -> dict | None:
        """Return the keys of a device that howmanygpus.report.accounting needs; None without a cluster and a price."""
        options = self.devices[name].options if name in self.devices else {}
        if not options or (not self.is_cluster and options["price_per_hour"] is None):
            return None
        use = {options["nodes"]: True} if self.is_cluster else {}
        return {key: options[key] for key in ("devices_per_node", *PRICING)} | use

    def resolve(self, device: str, place: str) -> str:
        """Resolve `auto` to cuda if there is a GPU, otherwise to cpu. Raises ConfigError for unknown names."""
        if device == "auto":
            if self.is_cluster:
                named = ", ".join(sorted(self.devices)) or "none yet"
                example = next(iter(sorted(self.devices)), "NAME")
                raise refuse(
                    *(place, device, "looks at this machine, but runs are jobs on others"),
                    f"name a device of {self.path} ({named}) in the study, such as `devices: [{example}]`",
                )
            return "cuda" if "cuda" in self.devices else "cpu"
        if device not in self.devices and device not in UNKNOWN_DEVICES:
            raise self._explain_unknown(device, place)
        return device

    def explain_absence(self, device: str) -> str:
        """Return why no run can use a device that `resolve` accepts, but of which the machine has none."""
        if device in self.excesses:
            return _explain_missing(self.devices[device])
        named = ", ".join(sorted(self.devices)) or "none"
        return self.missing.get(device, f"the machine file has no device of this name ({named})")

    def _explain_unknown(self, device: str, place: str) -> ConfigError:
        if device in self.missing:
            problem = f"is a device of {self.path}, but {self.missing[device]}"
            return refuse(place, device, problem, "correct it there, or choose another device or profile")
        gpus = [] if self.is_cluster else ["cuda"]
        gpus += [name for name, known in self.devices.items() if known.kind == "cuda" and name not in gpus]
        # The devices of other machines cannot be detected from here, so a cluster has only those of its file.
        known = set(self.devices) if self.is_cluster else {"auto", *UNKNOWN_DEVICES, *self.devices}
        remedy = suggest(device, known) if known else f"describe it there under devices.{device}"
        if device in GPU_WORDS and gpus:
            remedy = f"write {' or '.join(gpus)}"
        return refuse(place, device, f"is no device of {self.path}", remedy)


def resolve_machine_file(given: str | None, command_line: list[str], start: Path = Path()) -> Path:
    """Return the machine file of the config, or machine.yaml beside the profile, or the default machine file.

    start: the folder in which the command was given; the path of its profile is relative to it.
    Jobs that Snakemake starts have no --profile. They find the file by HOWMANYGPUS_MACHINE, which is set here.
    """
    if given is not None and not isinstance(given, str):
        raise refuse("machine", given, "is not the path of a file", "name a machine file or leave `machine` out")
    given = expand_path(given, "machine") if given else None
    named = given or _beside_profile(command_line, start) or os.environ.get("HOWMANYGPUS_MACHINE")
    path = Path(named or choose_file(DEFAULT_MACHINE_FILE))
    if not path.exists():
        raise ConfigError(f"machine: {path} does not exist; name an existing machine file or leave `machine` out")
    os.environ["HOWMANYGPUS_MACHINE"] = str(path)
    return path


def _beside_profile(command_line: list[str], start: Path) -> str | None:
    profile = os.environ.get("SNAKEMAKE_PROFILE")
    for position, word in enumerate(command_line):
        if word == "--profile" and position + 1 < len(command_line):
            profile = command_line[position + 1]
        elif word.startswith("--profile="):
            profile = word.partition("=")[2]
    path = start / (profile or "") / "machine.yaml"
    return str(path) if profile and path.exists() else None


def read_machine(path: Path, packed: bool = False) -> Machine:
    """Read and validate a machine file, and detect on this machine the values that the file leaves out."""
    schema = read_schema("machine")
    values = read_yaml(path)
    values = {} if values is None else values
    check_schema(values, schema, root="the machine file", file=str(path))
    values = fill_defaults(values, schema, schema)
    _check_environments(values["environments"], path)
    declared = dict(values["devices"])
    if values["scheduler"] == "none":
        default = fill_defaults({}, schema["$defs"]["device"], schema)
        declared = {"cpu": default, "cuda": default} | declared
    devices = {name: _complete_device(name, options, values["scheduler"], path) for name, options in declared.items()}
    present = {name: device for name, device in devices.items() if device.devices_per_node}
    missing = {name: _explain_missing(device) for name, device in devices.items() if not device.devices_per_node}
    if not isinstance(packed, bool):
        raise refuse("packed", packed, "is not of type boolean", "write true or false")
    if packed and values["scheduler"] == "none":
        raise ConfigError(f"packed: true needs the machine file of a cluster, not {path}; name it with `machine`")
    if values["slurm"]["judge_network"] == "refuse" and not values["slurm"]["preflight"]:
        problem, remedy = "judges what the preflight measures, which is off", "set `preflight: true`, or `report` here"
        raise refuse(f"{path}: slurm.judge_network", "refuse", problem, remedy)
    excesses = _find_excesses(values["devices"], path) if values["scheduler"] == "none" else {}
    slurm, environments = values["slurm"], values["environments"]
    published = expand_path(values["published_weights"], f"{path}: published_weights")
    found = (str(path), present, values["scheduler"], slurm, packed, environments, missing, excesses, published)
    return Machine(*found, **{key: values[key] for key in ("telemetry_interval_s", "reference_kernel")})


def _complete_device(name: str, options: dict, scheduler: str, path: Path) -> Device:
    kind = _find_kind(name, options)
    if scheduler == "none":
        if options["max_nodes"] > 1:
            raise refuse(
                f"{path}: devices.{name}.max_nodes",
                options["max_nodes"],
                "needs a scheduler, because all runs start on this machine otherwise",
                "set `scheduler: slurm` with its keys, or leave max_nodes out",
            )
        options = options | _detect_machine(kind, options)
    for key in ("devices_per_node", "cores_per_device"):
        if options[key] is None:
            raise ConfigError(
                f"{path}: devices.{name}.{key} is missing: with a scheduler, devices are on other machines and are not "
                "detected; add it"
            )
    if scheduler == "slurm":
        check_sbatch_options(options, f"{path}: devices.{name}")
    if scheduler == "slurm" and kind == "cuda" and options["request"] is None:
        raise ConfigError(
            f"{path}: devices.{name}.request is missing: no job would be given a GPU; add one such as gpu:{name}:{{n}}"
        )
    keys = ("devices_per_node", "cores_per_device", "max_nodes", "compute_capability")
    is_split = options.get("is_split") or names_part(options["request"] or "")
    return Device(**{key: options[key] for key in keys}, kind=kind, is_split=is_split, options=options)


def _check_environments(environments: dict, path: Path) -> None:
    """Raise ConfigError for an existing interpreter that replaces no environment, or that cannot be started."""
    known = {name for framework in FRAMEWORKS.values() for name in framework.list_environments()} | {PILLOW_SIMD}
    for name, interpreter in environments.items():
        if name not in known:
            raise refuse(f"{path}: environments", name, "replaces no environment", suggest(name, known))
        given, place = interpreter["python"], f"{path}: environments.{name}.python"
        if not Path(given).exists():
            words = split_words(given, place)
            lacking = [word for word in words if NEEDS_VALUE.fullmatch(word)]
            if lacking:
                remedy = f"write {lacking[0]}=VALUE"
                raise refuse(place, given, f"has {lacking[0]} without its value in the same word", remedy)


def _explain_missing(device: Device) -> str:
    if device.kind == "cuda":
        return "no NVIDIA GPU was found here"
    return f"{device.cores_per_device} cores per device are more than the {count_cores()} of this machine"


def _find_excesses(declared: dict[str, dict], path: Path) -> dict[str, Excess]:
    """Return the devices whose number in the file exceeds that of this machine."""
    excesses = {}
    for name, options in declared.items():
        count, kind = options["devices_per_node"], _find_kind(name, options)
        if count is None:
            continue
        present = _detect_machine(kind, options | {"devices_per_node": None})["devices_per_node"]
        if count > present:
            cores = f", with {options['cores_per_device'] or 1} of its {count_cores()} cores each"
            problem = f"exceeds the {present} that this machine has{cores if kind == 'cpu' else ''}"
            remedy = "lower it, leave it out, or describe a cluster (`scheduler: slurm`)"
            finding = Finding(f"{path}: devices.{name}.devices_per_node", count, problem, remedy)
            excesses[name] = Excess(present, finding)
    return excesses


def _find_kind(name: str, options: dict) -> str:
    return options["kind"] or ("cpu" if name == "cpu" else "cuda")


def names_part(request: str) -> bool:
    """Return whether a request or gres names parts of GPUs (MIG), such as gpu:a100_1g.5gb:{n}."""
    return bool(PART.search(request))


def count_cores() -> int:
    present = len(os.sched_getaffinity(0))
    return min(present, count_cores_in_quota() or present)


def has_nvml() -> bool:
    """Return whether NVML's library is here, which every driver of NVIDIA brings."""
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return False
    return True


def _detect_machine(kind: str, options: dict) -> dict:
    """Return the values that the machine file leaves out, as detected on this machine."""
    num_cores = count_cores()
    if kind == "cpu":
        cores_per_device = options["cores_per_device"] or 1
        count = options["devices_per_node"] or num_cores // cores_per_device
        return {"devices_per_node": count, "cores_per_device": cores_per_device}
    num_gpus, capability, is_split = options["devices_per_node"] or 0, options["compute_capability"], False
    if has_nvml():
        # The import of NVML's module takes a thirtieth of a large grid's dry run.
        from howmanygpus.measure.host.gpus import list_gpu_uuids, read_compute_capability

        uuids = list_gpu_uuids()
        is_split = any(uuid.startswith("MIG-") for uuid in uuids)
        num_gpus, capability = num_gpus or len(uuids), capability or read_compute_capability()
    cores_per_device = options["cores_per_device"] or max(num_cores // max(num_gpus, 1), 1)
    found = {"devices_per_node": num_gpus, "cores_per_device": cores_per_device, "compute_capability": capability}
    return found | {"is_split": is_split}


KEYS = {
    "quality of service": "use `qos`",
    "partition": "use `partition`",
    "node constraints": "use `constraint`",
    "memory": "use `memory_per_device_mb`",
    "CPUs per task": "use `cores_per_device`",
    "generic resources (GRES)": "use `request`, such as gpu:a100:{n}",
    "GPU allocation": "use `request`, such as --gpus-per-node={n}",
    "runtime/time limit": "use `time_limit_min` of the study",
    "account": "use `slurm_account` among the default-resources of the profile",
}
"""Key or option to use instead, by the plugin's name of what an option sets."""


PART = re.compile(r"(?<![a-z])mig(?![a-z])|\dg[._]?\d+gb", re.IGNORECASE)
"""A profile of MIG in the name of a gres: NVIDIA's own such as 1g.5gb and 1c.3g.40gb, or the word mig."""
GRES = re.compile(r"[a-zA-Z0-9_]+(:[a-zA-Z0-9_.]+)?:\{n\}")
"""The form in which the plugin takes a gres (set_gres_string in its utils.py)."""


def check_sbatch_options(options: dict, place: str) -> None:
    """Raise ConfigError for options that no shell can read, or that Snakemake's executor plugin refuses or sets itself.

    options: the keys of a device in the machine file.
    """
    for key in ("sbatch_options", "request"):
        given = options[key] or ""
        if key == "sbatch_options" or given.startswith("-"):
            _check(given, f"{place}.{key}")
        elif given and not GRES.fullmatch(given):
            found = re.match(r"gpu:([^:,{}]+):", given)
            kind = found[1] if found else "TYPE"
            remedy = f'write an option of sbatch, such as "--gpus-per-node={kind}:{{n}}"'
            raise refuse(f"{place}.{key}", given, "is no gres that Snakemake's SLURM plugin takes", remedy)


def split_words(given: str, place: str) -> list[str]:
    """Return the words of a command line. Raises ConfigError for one that no shell can read."""
    try:
        return shlex.split(given)
    except ValueError as error:
        problem = str(error)[0].lower() + str(error)[1:]
        raise refuse(place, given, f"cannot be split into words: {problem}", "close the quote") from None


def _check(given: str, place: str) -> None:
    if not given:
        return
    split_words(given, place)
    # The plugin takes long to import, and few machine files need it here.
    from snakemake_executor_plugin_slurm.validation import get_forbidden_slurm_options

    for pattern, what in get_forbidden_slurm_options().items():
        if found := re.search(pattern, f"{given} "):
            problem = f"has {found[0].rstrip(' =')}, which Snakemake's SLURM plugin sets itself"
            raise refuse(place, given, problem, KEYS.get(what, "leave it out"))
