"""
What the parity gate checks: one cell for everything that decides whether runs do the same work.

A verdict's file name has the hash of the code and pins that it is about, so that a changed strategy needs another file.
The gate's own code is a parameter of its own rules only, so that changing the gate reruns no training. Cells of one
framework and device form a group: a framework takes longer to start than to do all their tasks.
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
    """shape: height, width, channels. Runs of one cell share a verdict; those over nodes have one of their own."""

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
        """Name of the task's folder below results/parity/, which cells of all frameworks share."""
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
        """Name of the cell among those of its group."""
        option = "_loss-on-every-device" if self.loss_on_every_device else ""
        return f"{self.task}_{self.precision}{option}"

    def describe(self) -> dict:
        """The cell as train.parity.task.make_spec takes it."""
        what = ("framework", "model", "precision", "batchnorm", "loss_on_every_device")
        where = ("device", "device_kind", "cores_per_device")
        return {key: getattr(self, key) for key in (*what, *where)}

    def request(self) -> str:
        return json.dumps(self.describe())

    def layouts(self, device: Device) -> list[str]:
        """Devices x nodes: two on as many nodes; or one, and two on one node, where framework and machine have them."""
        if self.over_nodes:
            return [f"{MOST_DEVICES}x{MOST_DEVICES}"]
        framework = FRAMEWORKS[self.framework]
        most = min(MOST_DEVICES, device.devices_per_node, framework.max_devices.get(self.device_kind, MOST_DEVICES))
        if most < MOST_DEVICES or self.batchnorm not in framework.batchnorm[self.device_kind]:
            return ["1x1"]
        return ["1x1", f"{MOST_DEVICES}x1"]


@dataclass(frozen=True)
class ParityGroup:
    """Cells of one framework on one kind of device, which one start of the framework per layout observes."""

    cells: tuple[ParityCell, ...]

    @property
    def first(self) -> ParityCell:
        return self.cells[0]

    @cached_property
    def name(self) -> str:
        """Name of its observations. It has the hash of the verdicts' names, and so of the code that they are about."""
        verdicts = sorted(cell.verdict for cell in self.cells)
        digest = hashlib.sha256(json.dumps(verdicts).encode()).hexdigest()[:8]
        option = "_over-nodes" if self.first.over_nodes else ""
        return f"{self.first.framework}_{self.first.device}{option}-{digest}"

    @property
    def references(self) -> list[str]:
        """Files of the tasks that the cells are observed at, each once."""
        return list(dict.fromkeys(f"results/parity/{cell.task}/reference.json" for cell in self.cells))

    def layouts(self, device: Device) -> dict[str, list[str]]:
        """Keys of the cells that are observed on each layout: devices x nodes."""
        layouts: dict[str, list[str]] = {}
        for cell in self.cells:
            for layout in cell.layouts(device):
                layouts.setdefault(layout, []).append(cell.key)
        return layouts

    def request(self) -> str:
        """The cells by key, each with the folder of its task, as train.parity.observe takes them."""
        cells = {cell.key: cell.describe() | {"task": f"results/parity/{cell.task}"} for cell in self.cells}
        entry = FRAMEWORKS[self.first.framework]
        names = {"framework": self.first.framework}
        names |= {key: getattr(entry, key) for key in ("family", "strategy", "launcher")}
        return json.dumps({"framework": names, "cells": cells})


def group_cells(cells: Iterable[ParityCell]) -> list[ParityGroup]:
    """The cells by what one process needs to have in common."""
    groups: dict[tuple, list[ParityCell]] = {}
    for cell in cells:
        common = (cell.framework, cell.device, cell.device_kind, cell.cores_per_device, cell.over_nodes)
        groups.setdefault(common, []).append(cell)
    return [ParityGroup(tuple(sorted(group, key=lambda cell: cell.key))) for group in groups.values()]
