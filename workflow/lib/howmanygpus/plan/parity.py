"""
Defines what the parity gate checks. A cell combines all settings that decide whether runs do the same work.

A verdict's file name contains the hash of the code and pins that it covers, so a changed strategy needs a new verdict.
The gate's own code is a parameter of the gate's rules only, so a change of the gate reruns no training. The cells of
one framework and device form a group, because a framework takes longer to start than to do all their tasks.
"""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from howmanygpus.plan.config.machine import Device
from howmanygpus.plan.frameworks import FRAMEWORKS
from howmanygpus.plan.invalidation.code import hash_checked

MOST_DEVICES = 2


@dataclass(frozen=True)
class ParityCell:
    """One cell of the parity gate. All runs of a cell share its verdict; runs on several nodes have a separate cell.

    shape: height, width and channels of the images.
    """

    framework: str
    model: str
    shape: tuple[int, int, int]
    num_classes: int
    precision: str
    device: str
    batchnorm: str
    loss_on_every_device: bool
    device_kind: str
    cores_per_device: int
    over_nodes: bool

    @property
    def environment(self) -> str:
        return FRAMEWORKS[self.framework].environments[self.device_kind]

    @property
    def task(self) -> str:
        """The name of the task's folder below results/parity/, which the cells of all frameworks share."""
        height, width, channels = self.shape
        return f"{self.model}_{height}x{width}x{channels}_classes{self.num_classes}_{self.batchnorm}"

    @property
    def verdict(self) -> str:
        option = "_loss-on-every-device" if self.loss_on_every_device else ""
        option += "_over-nodes" if self.over_nodes else ""
        checked = hash_checked(self.framework, self.model, self.environment)
        return f"results/parity/{self.task}/{self.framework}_{self.precision}_{self.device}{option}-{checked}.json"

    @property
    def key(self) -> str:
        """The name of the cell within its group."""
        option = "_loss-on-every-device" if self.loss_on_every_device else ""
        return f"{self.task}_{self.precision}{option}"

    def describe(self) -> dict:
        """Return the cell as train.parity.task.make_spec expects it."""
        what = ("framework", "model", "precision", "batchnorm", "loss_on_every_device")
        where = ("device", "device_kind", "cores_per_device")
        return {key: getattr(self, key) for key in (*what, *where)}

    def request(self) -> str:
        return json.dumps(self.describe())

    def layouts(self, device: Device) -> list[str]:
        """Return the layouts to observe, each written as devices x nodes.

        A cell over nodes has two devices on two nodes. Any other cell has one device. It also has two devices on one
        node if the framework supports them and the machine has them.
        """
        if self.over_nodes:
            return [f"{MOST_DEVICES}x{MOST_DEVICES}"]
        framework = FRAMEWORKS[self.framework]
        most = min(MOST_DEVICES, device.devices_per_node, framework.max_devices.get(self.device_kind, MOST_DEVICES))
        if most < MOST_DEVICES or self.batchnorm not in framework.batchnorm[self.device_kind]:
            return ["1x1"]
        return ["1x1", f"{MOST_DEVICES}x1"]


@dataclass(frozen=True)
class ParityGroup:
    """Cells of one framework on one kind of device. One start of the framework per layout observes them."""

    cells: tuple[ParityCell, ...]

    @property
    def first(self) -> ParityCell:
        return self.cells[0]

    @cached_property
    def name(self) -> str:
        """The name of the group's observations. It has a hash of the verdicts' names, which include code hashes."""
        verdicts = sorted(cell.verdict for cell in self.cells)
        digest = hashlib.sha256(json.dumps(verdicts).encode()).hexdigest()[:8]
        option = "_over-nodes" if self.first.over_nodes else ""
        return f"{self.first.framework}_{self.first.device}{option}-{digest}"

    @property
    def references(self) -> list[str]:
        """The reference files of the tasks on which the cells are observed, without duplicates."""
        return list(dict.fromkeys(f"results/parity/{cell.task}/reference.json" for cell in self.cells))

    def layouts(self, device: Device) -> dict[str, list[str]]:
        """Return the keys of the cells to observe, by layout (devices x nodes)."""
        layouts: dict[str, list[str]] = {}
        for cell in self.cells:
            for layout in cell.layouts(device):
                layouts.setdefault(layout, []).append(cell.key)
        return layouts

    def request(self) -> str:
        """Return the cells by key, each with the folder of its task, as train.parity.observe expects them."""
        cells = {cell.key: cell.describe() | {"task": f"results/parity/{cell.task}"} for cell in self.cells}
        entry = FRAMEWORKS[self.first.framework]
        names = {"framework": self.first.framework}
        names |= {key: getattr(entry, key) for key in ("family", "strategy", "launcher")}
        return json.dumps({"framework": names, "cells": cells})


def group_cells(cells: Iterable[ParityCell]) -> list[ParityGroup]:
    """Group cells that one process can observe: same framework, device and cores, and all or none over nodes."""
    groups: dict[tuple, list[ParityCell]] = {}
    for cell in cells:
        common = (cell.framework, cell.device, cell.device_kind, cell.cores_per_device, cell.over_nodes)
        groups.setdefault(common, []).append(cell)
    return [ParityGroup(tuple(sorted(group, key=lambda cell: cell.key))) for group in groups.values()]
