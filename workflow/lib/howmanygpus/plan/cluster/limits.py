"""
Asks SLURM's accounting what one job may have: by the QOS of its partition, its own QOS, and the user's association.

If several of these set the same limit, the first one in this order applies (SLURM's resource_limits.html). Limits of a
user or a group are included, because a job that exceeds one by itself waits for ever.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from howmanygpus.plan.cluster.associations import describe_association, find_association, list_rows
from howmanygpus.train.host.slurm import ask
from howmanygpus.train.preflight.limits import to_minutes

PER_JOB = ("MaxTRES", "MaxTRESPerUser", "MaxTRESPerAccount", "GrpTRES")
PER_NODE = ("MaxTRESPerNode",)
BY_ENVIRONMENT = "SBATCH_QOS"
"""The variable by which sbatch takes the QOS of a job that names none."""
ENFORCED = re.compile(r"^AccountingStorageEnforce\s*=.*\b(?:limits|safe)\b", re.MULTILINE)
AMOUNT = re.compile(r"(?P<number>[\d.]+)(?P<unit>[KMGTP]?)")
MIB = {"K": 2**-10, "": 1, "M": 1, "G": 2**10, "T": 2**20, "P": 2**30}
LONGER, WIDER, FIRST = "PartitionTimeLimit", "PartitionMaxNodes", "OverPartQOS"
"""Flags of a QOS: its jobs may be longer, or on more nodes, than the partition allows; it takes precedence over the
partition's QOS.
"""


class Limit(NamedTuple):
    """A maximum. name: its origin, for example `MaxTRES of the QOS short`. Memory is in MiB."""

    most: float
    name: str


@dataclass(frozen=True)
class Limits:
    """The limits of one job. per_job, per_node: by SLURM's name of a resource, such as gres/gpu.

    wall_min: limit of its time in minutes; None without a limit. is_known: whether SLURM answered, also if nothing is
    limited. may_be_longer, may_be_wider: whether the job may exceed the partition's limit of the time or of the nodes.
    """

    wall_min: Limit | None = None
    per_job: dict[str, Limit] = field(default_factory=dict)
    per_node: dict[str, Limit] = field(default_factory=dict)
    is_known: bool = False
    may_be_longer: bool = False
    may_be_wider: bool = False

    def find(self, resource: str, num_nodes: int) -> Limit | None:
        """Return the limit of a resource for a job, all of its nodes together; None without a limit."""
        found = [self.per_job[resource]] if resource in self.per_job else []
        if resource in self.per_node:
            found.append(self.per_node[resource]._replace(most=num_nodes * self.per_node[resource].most))
        return min(found, default=None)

    def most_memory_mb(self, num_nodes: int) -> float:
        """Return the most memory of each node of a job."""
        limit = self.find("mem", num_nodes)
        return limit.most / num_nodes if limit else inf


UNKNOWN = Limits()


def ask_for_limits(qos: str | None, partition: dict[str, str], account: str | None = None) -> Limits:
    """Return the limits of a job, or UNKNOWN if SLURM does not tell them or does not enforce them.

    qos, account: of the job; None for the default of the user. partition: its partition's fields, as scontrol shows
    them.
    """
    config = ask(["scontrol", "show", "config"])
    if not ENFORCED.search(config):
        return UNKNOWN
    known = {row["Name"]: row for row in list_rows("qos", [])}
    if not known:
        return UNKNOWN
    association = find_association(account, partition.get("PartitionName", ""), config)
    chosen = qos or os.environ.get(BY_ENVIRONMENT) or _find_default(association)
    both = [known.get(partition.get("QoS", ""), {}), own := known.get(chosen, {})]
    in_order = reversed(both) if FIRST in own.get("Flags", "") else both
    named = [(row, f"of the QOS {row['Name']}") for row in in_order if row]
    named += [(association, describe_association(association))] if association else []
    return Limits(
        wall_min=next(_find_walls(named), None),
        per_job=_find_amounts(named, PER_JOB),
        per_node=_find_amounts(named, PER_NODE),
        is_known=True,
        may_be_longer=LONGER in own.get("Flags", ""),
        may_be_wider=WIDER in own.get("Flags", ""),
    )


def _find_default(association: dict[str, str] | None) -> str:
    """Return the QOS that SLURM uses for a job without one; empty if the job's association is not known."""
    if association is None:
        return ""
    return association["DefaultQOS"] or (association["QOS"] if "," not in association["QOS"] else "") or "normal"


def _find_walls(named: list[tuple[dict[str, str], str]]) -> Iterator[Limit]:
    for row, whose in named:
        if (minutes := to_minutes(row["MaxWall"])) < inf:
            yield Limit(minutes, f"MaxWall {whose}")


def _find_amounts(named: list[tuple[dict[str, str], str]], keys: tuple[str, ...]) -> dict[str, Limit]:
    """Return the lowest limit of each resource. If several rows set the same key, the first row's limit applies."""
    lowest: dict[str, Limit] = {}
    for key in keys:
        first: dict[str, Limit] = {}
        for row, whose in named:
            for resource, most in parse_amounts(row.get(key, "")).items():
                first.setdefault(resource, Limit(most, f"{key} {whose}"))
        lowest |= {resource: min(limit, lowest.get(resource, limit)) for resource, limit in first.items()}
    return lowest


def parse_amounts(text: str) -> dict[str, float]:
    """Parse SLURM's amounts of resources, such as cpu=4,gres/gpu=2,mem=3000M. Memory becomes MiB."""
    found = {}
    for part in filter(None, text.split(",")):
        resource, _, amount = part.partition("=")
        if parsed := AMOUNT.fullmatch(amount):
            found[resource] = float(parsed["number"]) * (MIB[parsed["unit"]] if resource == "mem" else 1)
    return found
