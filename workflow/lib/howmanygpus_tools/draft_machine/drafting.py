"""
Drafts the machine file and the profile of a cluster from what SLURM tells on this machine.

A comment that begins with STATE names what SLURM does not tell, such as prices.
"""

import json
import re
import socket
import textwrap
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path

from howmanygpus.config.errors import ConfigError
from howmanygpus.config.schema import read_schema
from howmanygpus.site import slurm
from howmanygpus.site.machine import GRES, has_nvml, names_part
from howmanygpus.site.node_check import describe_interfaces
from howmanygpus.site.offer import User, ask_user, explain_closure, list_gres

STATE = "TO STATE: "
MOST_NODES, MOST_JOBS, RUNTIME_MIN = 2, 100, 60
"""Values of the drafts that a site may lower: nodes of the largest run, jobs in the queue, minutes of other jobs."""
GATE_MIN, OVERHEAD_MIN = (
    read_schema("machine")["$defs"]["slurm"]["properties"][key]["default"] for key in ("gate_limit_min", "overhead_min")
)
CAPABILITIES = {
    "6.0": ("p100",),
    "7.0": ("v100", "v100s"),
    "7.5": ("t4",),
    "8.0": ("a100", "a30"),
    "8.6": ("a2", "a10", "a16", "a40"),
    "8.9": ("l4", "l40", "l40s"),
    "9.0": ("h100", "h200", "gh200"),
    "10.0": ("b200", "gb200"),
}
"""Words for GPUs in the names of their types, by compute capability (https://developer.nvidia.com/cuda-gpus)."""
WIDTH = 120


@dataclass(frozen=True)
class Site:
    """What can be asked on a machine of a cluster.

    host: name of this machine, with its interfaces as site.node_check describes them. capability: compute capability of
    its GPUs.
    """

    configuration: dict[str, str]
    partitions: list[slurm.Partition]
    nodes: list[slurm.Node]
    user: User
    host: str
    interfaces: dict[str, dict]
    capability: str | None

    def may_use(self, partition: slurm.Partition) -> bool:
        """Whether the partition starts jobs of this user, as far as groups and accounts are known.

        Jobs may name any QOS of the user.
        """
        return partition.is_up and not explain_closure(replace(partition, qos=(), denied_qos=()), self.user)


@dataclass(frozen=True)
class Share:
    """Devices of a node, and the cores and the memory that a partition gives jobs there."""

    devices: int
    cores: int
    memory_mb: int

    def __str__(self) -> str:
        return f"{self.devices} devices, {self.cores} cores and {self.memory_mb} MB"


@dataclass(frozen=True)
class Place:
    """A partition with the nodes that have a type of device; nodes: their shares, by name."""

    partition: slurm.Partition
    nodes: dict[str, Share]

    @property
    def longest_min(self) -> float:
        return slurm.to_minutes(self.partition.time_limit)

    @property
    def usual(self) -> Share:
        """The share of most nodes; of several, that with most devices."""
        counts = Counter(self.nodes.values())
        return max(counts, key=lambda share: (counts[share], share.devices, share.cores, share.memory_mb))

    def __str__(self) -> str:
        return f"{self.partition.name} (nodes: {len(self.nodes)}, longest job: {self.partition.time_limit})"


def ask_site() -> Site:
    """Ask SLURM and this machine. Raises SlurmError if the controller does not answer."""
    return Site(
        configuration=slurm.read_configuration(),
        partitions=slurm.list_partitions(),
        nodes=slurm.describe_nodes(),
        user=ask_user(),
        host=socket.gethostname().split(".")[0],
        interfaces=describe_interfaces(),
        capability=_read_capability(),
    )


def _read_capability() -> str | None:
    if not has_nvml():
        return None
    from howmanygpus.measure.host.gpus import read_compute_capability

    return read_compute_capability()


def draft_machine(site: Site) -> str:
    """Return the text of a machine file. Raises ConfigError if this user may use no partition with nodes."""
    usable = [partition for partition in site.partitions if site.may_use(partition)]
    found = _list_places(site, usable)
    if not found:
        closed = ", ".join(partition.name for partition in site.partitions) or "none"
        raise ConfigError(
            f"no partition is up, has nodes and is open to your accounts and groups (`scontrol show partition` lists "
            f"all: {closed}); copy profiles/slurm and describe the cluster by hand"
        )
    chosen = {name: _choose(places) for name, places in found.items()}
    version, cluster = (site.configuration.get(key, "?") for key in ("SLURM_VERSION", "ClusterName"))
    lines = _remark(
        f"Drafted from what SLURM {version} tells about the cluster {cluster}. Check it, and look for TO STATE, which "
        "marks what SLURM does not tell. profiles/README.md lists every key with its default."
    )
    lines += ["scheduler: slurm", "", "devices:"]
    for gres, places in found.items():
        lines += _draft_device(site, gres, chosen[gres], places)
    if left := [partition.name for partition in site.partitions if partition not in usable]:
        lines += _remark(
            f"Left out, because they are down or closed to your accounts and groups: {', '.join(left)}.", 2
        )
    return "\n".join([*lines, "", "slurm:", *_draft_settings(site, list(chosen.values())), ""])


def _list_places(site: Site, partitions: list[slurm.Partition]) -> dict[str, list[Place]]:
    """Return where each type of GPU is, by its gres such as gpu:a100. A cluster without GPUs has the type cpu."""
    names = sorted({name for node in site.nodes for name, _ in list_gres(node.gres) if name.split(":")[0] == "gpu"})
    found = {}
    for gres in names or ["cpu"]:
        places = [Place(partition, _list_shares(site, partition, gres)) for partition in partitions]
        if places := [place for place in places if place.nodes]:
            found[gres] = places
    return found


def _list_shares(site: Site, partition: slurm.Partition, gres: str) -> dict[str, Share]:
    shares = {}
    for node in site.nodes:
        # A socket of a node without GPUs is one device.
        devices = node.sockets if gres == "cpu" else dict(list_gres(node.gres)).get(gres, 0)
        if devices and partition.name in node.partitions:
            cores = int(min(node.cores, partition.max_cores))
            memory_mb = int(min(node.memory_mb, partition.max_memory_mb, cores * partition.max_memory_per_core_mb))
            if cores >= devices:
                shares[node.name] = Share(devices, cores, memory_mb)
    return shares


def _choose(places: list[Place]) -> Place:
    """Return the place with jobs long enough for the gate; of several, the default, the largest or the longest."""

    def rank(place: Place) -> tuple:
        is_long = place.longest_min >= GATE_MIN + OVERHEAD_MIN
        return is_long, place.partition.is_default, len(place.nodes), place.longest_min

    return max(places, key=rank)


def _draft_device(site: Site, gres: str, place: Place, places: list[Place]) -> Iterator[str]:
    share, partition = place.usual, place.partition
    same = [node for node, each in place.nodes.items() if each == share]
    shares = ", ".join(f"{count} with {each}" for each, count in Counter(place.nodes.values()).most_common())
    words = (
        f"Nodes of partition {partition.name} with this device: {shares}. Its longest job is {partition.time_limit}."
    )
    if partition.accounts:
        words += f" Jobs there need one of the accounts {', '.join(partition.accounts)}."
    if partition.qos:
        words += f" Jobs there need one of the QOS {', '.join(partition.qos)} (`qos`)."
    if further := [str(each) for each in places if each is not place]:
        words += f" Other partitions with this device: {', '.join(further)}."
    yield from _remark(words, 2)
    yield f"  {name_device(gres)}:"
    if names_part(gres):
        yield from _remark(
            f"A run uses one of the {share.devices} parts of GPUs (MIG) of a node: CUDA gives a process only one, and "
            f"NCCL takes no two of one GPU. Write {share.devices} for studies with `independent: true`, which do a run "
            "on each.",
            4,
        )
    yield f"    devices_per_node: {1 if names_part(gres) else share.devices}"
    yield from _remark("The number of nodes of the largest run is your choice.", 4)
    yield f"    max_nodes: {int(min(MOST_NODES, len(same), partition.max_nodes))}"
    yield f"    cores_per_device: {share.cores // share.devices}"
    # SLURM has 1 MB of a node whose memory nobody has configured.
    yield f"    memory_per_device_mb: {max(1, share.memory_mb // share.devices)}"
    if gres != "cpu":
        yield from _draft_capability(site, gres, place)
    yield f"    partition: {json.dumps(partition.name)}"
    if gres != "cpu":
        request = f"{gres}:{{n}}"
        if not GRES.fullmatch(request):
            request = f"--gpus-per-node={gres.removeprefix('gpu:')}:{{n}}"
        yield f'    request: "{request}"'
    yield from _remark("`shared` lets other jobs use the rest of a node, and disturb the measurement.", 4)
    yield "    nodes: exclusive"
    yield from _remark(f"{STATE}what an hour costs, if the answer is to name prices.", 4)
    yield from ("    # price_per_hour: 1.20", "    # billed: device", "    # currency: EUR")


def name_device(gres: str) -> str:
    """Return the name of a device, which a study lists. gres: such as gpu:a100."""
    name = re.sub("[^a-z0-9]+", "-", gres.partition(":")[2].lower() or gres).strip("-")
    return name if name[0].isalpha() else f"gpu-{name}"


def _draft_capability(site: Site, gres: str, place: Place) -> Iterator[str]:
    words = set(re.split("[^a-z0-9]+", gres.lower()))
    named = next((each for each, names in CAPABILITIES.items() if words & {*names}), None)
    if site.host in place.nodes and site.capability:
        yield from _remark(f"As the driver of {site.host} tells.", 4)
        yield f'    compute_capability: "{site.capability}"'
    elif named:
        yield from _remark("From the name of the type; the probe compares it with the GPU.", 4)
        yield f'    compute_capability: "{named}"'
    else:
        yield from _remark(f"{STATE}the compute capability; the probe names it. It decides which builds serve.", 4)
        yield "    compute_capability: null"


def _draft_settings(site: Site, places: list[Place]) -> Iterator[str]:
    task_plugin = site.configuration.get("TaskPlugin", "not known")
    yield from _remark(
        f"Set this to false if SLURM binds tasks to cores itself, in another way. TaskPlugin here: {task_plugin}.", 2
    )
    yield "  bind_cores: true"
    known = [f"{name} ({each['mbit_per_s'] or '?'} Mbit/s)" for name, each in site.interfaces.items() if name != "lo"]
    yield from _remark(
        f"{STATE}the interface of the fast network of the nodes, such as ib0, if their host name leads to another one. "
        f"The probe lists those of a node. {site.host}, where this was drafted, has {', '.join(known) or 'none'}.",
        2,
    )
    yield "  network_interface: null"
    yield from _remark(f"{STATE}whether compute nodes can reach the Python package index. The probe tries it.", 2)
    yield "  compute_nodes_have_network: true"
    disk_mb = min((node.local_disk_mb for node in site.nodes), default=0)
    size = f" {site.configuration.get('TmpFS', 'TmpFS')} has {disk_mb} MB or more on each." if disk_mb else ""
    yield from _remark(
        f"{STATE}a folder on each node's own disk to which the data are copied before training, if reading them there "
        f"is faster.{size}",
        2,
    )
    yield "  scratch: null"
    shortest_min = min(place.longest_min for place in places)
    if shortest_min < GATE_MIN + OVERHEAD_MIN:
        yield from _remark(
            f"A job of the parity gate takes this many minutes and {OVERHEAD_MIN} more, and must fit a partition.", 2
        )
        yield f"  gate_limit_min: {max(1, int(shortest_min) - OVERHEAD_MIN)}"


def draft_profile(site: Site, template: str) -> str:
    """Return the text of config.yaml. template: that of profiles/slurm, in which lines are replaced.

    Raises ConfigError if a line of the template is not there.
    """
    partition = choose_partition_without_devices(site)
    longest_min = slurm.to_minutes(partition.time_limit) if partition else inf
    most = int(min([MOST_JOBS, *(each.max_submitted for each in site.user.associations or ())]))
    limit = _remark("SLURM takes no more of your jobs at a time.") if most < MOST_JOBS else []
    accounts = list(dict.fromkeys(each.account for each in site.user.associations or ()))
    has_database = site.configuration.get("AccountingStorageType", "").endswith("slurmdbd")
    database = "This cluster has a database." if has_database else "This cluster has no database, so keep squeue."
    resources = _remark(
        f"{STATE}slurm_account, if not the default account of {', '.join(accounts) or 'the user'} is to be charged.", 2
    )
    resources += [f"  slurm_partition: {json.dumps(partition.name)}"] if partition else []
    changes = {
        "jobs: 100": [*limit, f"jobs: {most}"],
        "slurm-status-command: squeue": [*_remark(database), "slurm-status-command: squeue"],
        "default-resources:": ["default-resources:", *resources],
        "  runtime: 60": [f"  runtime: {int(min(RUNTIME_MIN, longest_min))}"],
    }
    lines = template.splitlines()
    for line, replaced in changes.items():
        if lines.count(line) != 1:
            raise ConfigError(f"profiles/slurm/config.yaml: the line {line!r} is not there; restore the file")
        position = lines.index(line)
        lines[position : position + 1] = replaced
    return "\n".join([*lines, ""])


def choose_partition_without_devices(site: Site) -> slurm.Partition | None:
    """Return the partition for jobs that need no device: one without GPUs or, if there is none, the default."""
    with_gpus = {name for node in site.nodes if "gpu" in node.gres for name in node.partitions}
    with_nodes = {name for node in site.nodes for name in node.partitions}
    usable = [each for each in site.partitions if site.may_use(each) and each.name in with_nodes]

    def rank(partition: slurm.Partition) -> tuple:
        longest_min = slurm.to_minutes(partition.time_limit)
        return longest_min >= RUNTIME_MIN, partition.name not in with_gpus, partition.is_default, longest_min

    return max(usable, key=rank, default=None)


def _remark(text: str, indent: int = 0) -> list[str]:
    """Return the lines of a comment."""
    prefix = " " * indent + "# "
    return textwrap.wrap(text, WIDTH, initial_indent=prefix, subsequent_indent=prefix, break_on_hyphens=False)


def list_statements(text: str) -> list[str]:
    """Return what a draft leaves to its user, a sentence each."""
    joined = re.sub(r"\n *# ", " ", text)
    return list(dict.fromkeys(re.findall(f"{STATE}([^.]*)", joined)))


def refuse_to_overwrite(folder: Path, names: tuple[str, ...]) -> None:
    """Raise ConfigError if a folder has one of the files."""
    if present := [str(folder / name) for name in names if (folder / name).exists()]:
        raise ConfigError(
            f"{', '.join(present)}: exists; choose another folder, or give --overwrite (`make draft-machine "
            f"PROFILE={folder} OVERWRITE=1`) to replace it"
        )
