"""Asks SLURM what a device's partition and nodes offer to a job."""

import grp
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from math import inf

from howmanygpus.config.findings import find_error
from howmanygpus.site import slurm

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

    max_nodes: the number of its nodes that the partition gives one job at most.
    """

    partition: str
    longest_job_min: float
    nodes: tuple[Node, ...]
    max_nodes: float = inf

    def most(self, key: str, num_nodes: int) -> int:
        """Return the largest value of a key of Node that num_nodes nodes reach; 0 if there are fewer nodes."""
        values = sorted((getattr(node, key) for node in self.nodes), reverse=True)
        return values[num_nodes - 1] if num_nodes <= len(values) else 0


@dataclass(frozen=True)
class User:
    """This user. groups: of the system. associations: see site.slurm; None without an accounting database."""

    groups: tuple[str, ...]
    associations: list[slurm.Association] | None


def ask_user() -> User:
    """Return this user as the system and the accounting database know him."""
    associations = None
    with suppress(slurm.SlurmError):
        associations = slurm.list_associations()
    groups = []
    for number in os.getgroups():
        with suppress(KeyError):
            groups.append(grp.getgrgid(number).gr_name)
    return User(tuple(groups), associations)


def explain_closure(partition: slurm.Partition, user: User, account: str | None = None, qos: str | None = None) -> str:
    """Return for which groups, accounts or QOS a partition is, if it starts no job of the user; empty if it may.

    account, qos: those that jobs name; None for any account of the user, and its default QOS.
    """
    charged = [each for each in user.associations or () if account in (None, each.account)]
    accounts = {account} if account else {each.account for each in charged}
    # SLURM gives jobs the QOS `normal` if the database has no other default.
    names = {qos} if qos else {each.default_qos or "normal" for each in charged}
    if partition.groups and {*partition.groups}.isdisjoint(user.groups):
        return f"is only for the groups {', '.join(partition.groups)}, and yours are {', '.join(user.groups) or 'none'}"
    for what, allowed, denied, own in (
        ("accounts", partition.accounts, partition.denied_accounts, accounts),
        ("QOS", partition.qos, partition.denied_qos, names),
    ):
        if own and allowed and own.isdisjoint(allowed):
            return f"is only for the {what} {', '.join(allowed)}, and jobs have {', '.join(sorted(own))}"
        if own and not allowed and own <= {*denied}:
            return f"is closed to the {what} {', '.join(denied)}, and jobs have {', '.join(sorted(own))}"
    return ""


class PartitionError(ValueError):
    """The cluster has no such partition. Its argument is the finding, without the place of the name."""


def ask_for_offer(options: dict) -> Offer | None:
    """Return what jobs on a device can get, or None if SLURM does not answer. Raises PartitionError.

    options: the keys of the device in the machine file. A job for one of several partitions fits into each of them.
    """
    try:
        partitions, described = slurm.list_partitions(), slurm.describe_nodes()
    except slurm.SlurmError:
        return None
    if options["partition"] is None:
        chosen = [partition for partition in partitions if partition.is_default]
    else:
        known = {partition.name: partition for partition in partitions}
        if unknown := [name for name in options["partition"].split(",") if name not in known]:
            problem, remedy = "is no partition of this cluster", f"choose from {', '.join(known)}"
            raise PartitionError(find_error("", repr(unknown[0]), problem, remedy))
        chosen = [known[name] for name in options["partition"].split(",")]
    offers = [_describe_partition(partition, described, options) for partition in chosen]
    return min(offers, key=lambda offer: offer.longest_job_min, default=None)


def _describe_partition(partition: slurm.Partition, described: list[slurm.Node], options: dict) -> Offer:
    nodes = []
    for node in described:
        if partition.name in node.partitions and meets_request(node, options["constraint"]):
            memory_mb = int(min(node.memory_mb, partition.max_memory_mb))
            cores = int(min(node.cores, partition.max_cores))
            nodes.append(Node(cores, memory_mb, count_devices(node.gres, options["request"])))
    with_devices = tuple(node for node in nodes if node.devices != 0)
    return Offer(partition.name, slurm.to_minutes(partition.time_limit), with_devices, partition.max_nodes)


def meets_request(node: slurm.Node, constraint: str | None) -> bool:
    if constraint is None or not PLAIN_FEATURES.fullmatch(constraint):
        return True
    return set(re.split("[&,]", constraint)) <= set(node.features)


def list_gres(gres: str) -> list[tuple[str, int]]:
    """Return name and number of each gres of a node. gres: such as gpu:a100:4(S:0-1),nvme:1."""
    parts = (each.rpartition(":") for each in re.sub(r"\([^)]*\)", "", gres).split(","))
    return [(name, int(number)) for name, _, number in parts if name and number.isdigit()]


def count_devices(gres: str, request: str | None) -> int | None:
    """Count the devices of a node that a request such as gpu:a100:{n} names.

    gres: see list_gres. Returns None for a request that is no single gres.
    """
    if request is None or request.startswith("-") or "," in request or not request.endswith(":{n}"):
        return None
    wanted = request.removesuffix("{n}")
    return sum(number for name, number in list_gres(gres) if f"{name}:".startswith(wanted))
