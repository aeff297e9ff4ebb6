"""Asks SLURM what a device's partition and nodes offer to a job."""

import re
from dataclasses import dataclass
from math import inf

from howmanygpus.plan.cluster.limits import UNKNOWN, Limits, ask_for_limits
from howmanygpus.train.host.slurm import ask, parse_fields
from howmanygpus.train.preflight.limits import to_minutes

PLAIN_FEATURES = re.compile(r"[\w.-]+(?:[&,][\w.-]+)*")
"""A constraint that each node fulfils by itself. Others are left to SLURM."""


@dataclass(frozen=True)
class Node:
    """Resources of a node for all jobs together. devices: those that a request names; None if it names none."""

    cores: int
    memory_mb: int
    devices: int | None


@dataclass(frozen=True)
class Offer:
    """The largest job of a device's partition. `nodes` are those that a request for the device can get.

    limits: those of SLURM's accounting for one job. longest_job_min respects them. max_nodes: the number of its nodes
    that the partition gives one job at most.
    """

    partition: str
    longest_job_min: float
    nodes: tuple[Node, ...]
    limits: Limits = UNKNOWN
    max_nodes: float = inf

    @property
    def longest_is_of(self) -> str:
        """Name the limit that ends a job after longest_job_min."""
        wall = self.limits.wall_min
        return wall.name if wall and wall.most <= self.longest_job_min else f"partition {self.partition}"

    def most_memory_mb(self, num_nodes: int) -> float:
        """Return the most memory per node for a job on num_nodes nodes; 0 if there are fewer nodes."""
        return min(self.most("memory_mb", num_nodes), self.limits.most_memory_mb(num_nodes))

    def most(self, key: str, num_nodes: int) -> int:
        """Return the largest value of a key of Node that num_nodes nodes reach; 0 if there are fewer nodes."""
        values = sorted((getattr(node, key) for node in self.nodes), reverse=True)
        return values[num_nodes - 1] if num_nodes <= len(values) else 0


class PartitionError(ValueError):
    """The cluster has no such partition. The message lists those that it has."""


def ask_for_offer(options: dict, account: str | None = None) -> Offer | None:
    """Return what jobs on a device can get, or None if SLURM does not answer. Raises PartitionError.

    options: the keys of the device in the machine file. account: of the jobs; None for the default of the user. A job
    for one of several partitions fits into each of them.
    """
    partitions = _ask("partition")
    if not partitions:
        return None
    if options["partition"] is None:
        chosen = [each for each in partitions if each.get("Default") == "YES"]
    else:
        named = {each["PartitionName"]: each for each in partitions}
        if unknown := [name for name in options["partition"].split(",") if name not in named]:
            raise PartitionError(f"{unknown[0]!r} is no partition of this cluster; choose from {', '.join(named)}")
        chosen = [named[name] for name in options["partition"].split(",")]
    described = {each["NodeName"]: each for each in _ask("node")}
    offers = [_describe_partition(partition, described, options, account) for partition in chosen]
    return min(offers, key=lambda offer: offer.longest_job_min, default=None)


def _describe_partition(
    partition: dict[str, str], described: dict[str, dict[str, str]], options: dict, account: str | None
) -> Offer:
    limit_mb = to_number(partition.get("MaxMemPerNode"))
    nodes = []
    for node in described.values():
        if partition["PartitionName"] in node.get("Partitions", "").split(",") and fulfils(node, options["constraint"]):
            memory_mb = int(node["RealMemory"]) - int(node.get("MemSpecLimit", 0))
            cores = int(node.get("CPUEfctv") or node["CPUTot"])
            devices = count_devices(node.get("Gres", ""), options["request"])
            nodes.append(Node(cores, int(min(memory_mb, limit_mb)), devices))
    with_devices = tuple(node for node in nodes if node.devices != 0)
    limits = ask_for_limits(options.get("qos"), partition, account)
    longest_min = inf if limits.may_be_longer else to_minutes(partition.get("MaxTime"))
    if limits.wall_min:
        longest_min = min(longest_min, limits.wall_min.most)
    max_nodes = inf if limits.may_be_wider else to_number(partition.get("MaxNodes"))
    return Offer(partition["PartitionName"], longest_min, with_devices, limits, max_nodes)


def to_number(value: str | None) -> float:
    """Convert a number of SLURM; infinity for anything else, such as UNLIMITED."""
    return float(value) if value and value.isdigit() else inf


def fulfils(node: dict[str, str], constraint: str | None) -> bool:
    if constraint is None or not PLAIN_FEATURES.fullmatch(constraint):
        return True
    return set(re.split("[&,]", constraint)) <= set(node.get("AvailableFeatures", "").split(","))


def count_devices(gres: str, request: str | None) -> int | None:
    """Count the devices of a node that a request such as gpu:a100:{n} names.

    gres: such as gpu:a100:4(S:0-1),nvme:1. Returns None for a request that is no single gres.
    """
    if request is None or request.startswith("-") or "," in request or not request.endswith(":{n}"):
        return None
    wanted, counts = request.removesuffix("{n}"), 0
    for each in re.sub(r"\([^)]*\)", "", gres).split(","):
        if each.startswith(wanted) and (number := each.rpartition(":")[2]).isdigit():
            counts += int(number)
    return counts


def _ask(what: str) -> list[dict[str, str]]:
    """Return the fields of each partition or node, hidden ones included; empty if the controller does not answer."""
    lines = ask(["scontrol", "--all", "--oneliner", "show", what]).splitlines()
    return [parse_fields(line) for line in lines if line.startswith(f"{what.capitalize()}Name=")]
