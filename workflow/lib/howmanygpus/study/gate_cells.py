"""
Defines what the parity gate checks. A cell combines all settings that decide whether runs do the same work.

A verdict's file name contains the hash of the code and pins that it covers, so a changed strategy needs a new verdict.
The gate's own code is a parameter of the gate's rules only, so a change of the gate reruns no training. The cells of
one framework and device form a group, because a framework takes longer to start than to do all their tasks.

howmanygpus.settings declares how the gate checks each setting of a run. A setting of the cell is part of the gate's
request with its value: a run with another value needs a verdict of its own, whose task is done with that value. A new
setting that changes the work is therefore compared with the reference, and fails until the reference has it too.
"""

import hashlib
import json
import re
from collections.abc import Container, Iterable
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

from howmanygpus.gate.task_forms import SGD_FORM, Variation, make_optimizer
from howmanygpus.registry import FRAMEWORKS
from howmanygpus.settings import CELL, NONE, OPTIMIZER, SETTINGS, TASK, Setting, list_defaults
from howmanygpus.site.machine import Device
from howmanygpus.study.invalidation.code import hash_checked
from howmanygpus.study.invalidation.recorded import replace_paths_by_names
from howmanygpus.study.loaders import DALI, FILES, NATIVE, SHARED, resolve_loader
from howmanygpus.study.networks import name_network
from howmanygpus.study.own.folder import ModelFolder
from howmanygpus.study.own.model import OwnModel

MAX_GATE_DEVICES = 3
"""Three devices reveal mistakes that two hide, such as a mean of means."""
DEVICES_OVER_NODES = 2


OF_VARIATION = ("accumulate", "frozen_batches", "label_smoothing", "optimizer")
"""Settings of the cell that the task's variation has, but for single keys of the optimizer."""
PARTS = {
    "batchnorm": "",
    "loss_on_every_device": "_loss-on-every-device",
    "tier": "_{tier}",
    "loader": "_{loader}-{loader_kind}-{input}",
    "loader_kind": "",
    "input": "",
    "gradient_compression": "_{gradient_compression}",
    "powersgd_rank": "{powersgd_rank}",
    "horovod_controller": "_{horovod_controller}",
}
"""Parts of file names, by the settings that each cell has; a part is left out if the value is the usual one.

The task's name has `batchnorm`. Any other setting is only in cells with another value than its default, and its part
comes from name_setting.
"""


def select_settings(framework: str, source: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a cell, without those of the task's variation: each of PARTS, others if not the default.

    source: the input of a run. settings: its complete ones. `loader` becomes `shared` or the module of the framework's
    own, `input` is the form of the images, which is `arrays` for the shared loader, and `powersgd_rank` is 0 without
    that compression. Below `optimizer` are the keys that the task's optimizer of the same form does not have.
    """
    resolved = settings | resolve_loader(framework, settings)
    # JPEG is lossy; the frameworks' decoders differ by up to one level.
    resolved["input"] = "png" if resolved["loader"] != SHARED and source in FILES else "arrays"
    if settings["gradient_compression"] != "powersgd":
        resolved["powersgd_rank"] = 0
    formed = make_optimizer(SGD_FORM)
    others = _select_other(SETTINGS, settings, [*PARTS, *OF_VARIATION])
    optimizer = _select_other(OPTIMIZER, settings["optimizer"], formed)
    return {key: resolved[key] for key in PARTS} | others | ({"optimizer": optimizer} if optimizer else {})


def _select_other(table: dict[str, Setting], values: dict[str, Any], known: Container[str]) -> dict[str, Any]:
    """Return the settings of the cell that are not known and differ from their default."""
    found = {key: setting.default for key, setting in table.items() if setting.gate.by == CELL and key not in known}
    return {key: values[key] for key, default in found.items() if values.get(key, default) != default}


def describe_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """Return a cell's settings as gate.task.make_spec expects them: those that not every cell has are below `more`."""
    more = {key: value for key, value in settings.items() if key not in PARTS}
    return ({"more": more} if more else {}) | {key: settings[key] for key in PARTS}


@dataclass(frozen=True)
class ParityCell:
    """One cell of the parity gate. All runs of a cell share its verdict; runs on several nodes have a separate cell.

    model_options: options that differ from the model's defaults. shape: height, width and channels of the images.
    hardware: what the device is. settings: see select_settings. variation: of the task. own_model: the user's model;
    None for a network of the workflow.
    """

    framework: str
    model: str
    model_options: dict
    shape: tuple[int, int, int]
    num_classes: int
    precision: str
    device: str
    hardware: Device
    over_nodes: bool
    settings: dict[str, Any]
    variation: Variation
    own_model: OwnModel | ModelFolder | None = None

    @property
    def code_of_model(self) -> str | OwnModel | ModelFolder:
        return self.own_model or self.model

    @property
    def environment(self) -> str:
        return FRAMEWORKS[self.framework].resolve_environment(self.hardware.kind, self.settings["loader"])

    @property
    def task(self) -> str:
        """The name of the task's folder below results/parity/, which the cells of all frameworks share."""
        height, width, channels = self.shape
        own, options = self.own_model, self.model_options
        network = own.name_network(options) if own else name_network(self.model, options)
        size = f"{height}x{width}x{channels}_classes{self.num_classes}"
        return f"{network}_{size}_{self.settings['batchnorm']}{self.variation}"

    @property
    def _options(self) -> str:
        """The part of file names that distinguishes how the cell trains from the usual way."""
        usual = list_defaults() | {"powersgd_rank": 0}
        parts = [part.format(**self.settings) for key, part in PARTS.items() if self.settings[key] != usual.get(key)]
        parts += [name_setting(key, value) for key, value in self.settings.items() if key not in PARTS]
        return "".join(parts)

    @property
    def verdict(self) -> str:
        option = self._options + ("_over-nodes" if self.over_nodes else "")
        is_dali = self.settings["loader"] == FRAMEWORKS[self.framework].dali_loader
        loader = SHARED if self.settings["loader"] == SHARED else DALI if is_dali else NATIVE
        checked = hash_checked(self.framework, self.code_of_model, self.environment, loader)
        return f"results/parity/{self.task}/{self.framework}_{self.precision}_{self.device}{option}-{checked}.json"

    @property
    def key(self) -> str:
        """The name of the cell within its group."""
        return f"{self.task}_{self.precision}{self._options}"

    @property
    def strict(self) -> "ParityCell | None":
        """The cell of the same code in fp32 without compression of gradients; None if this cell is one itself.

        The limits of this cell are too wide for some faults, so its verdict requires that of the strict cell.
        """
        settings = self.settings | {"gradient_compression": "none", "powersgd_rank": 0}
        strict = replace(self, precision="fp32", settings=settings)
        return None if strict == self else strict

    @property
    def noise(self) -> str | None:
        """The record of the changes by reduced precision; None if the verdict needs none.

        For a user's model in one file, the reference contains them.
        """
        if self.precision == "fp32" or isinstance(self.own_model, OwnModel):
            return None
        return f"results/parity/{self.task}/noise.json"

    def describe(self) -> dict:
        """Return the cell as gate.task.make_spec expects it."""
        known = {key: getattr(self, key) for key in ("framework", "model", "model_options", "precision")}
        # Snakemake compares the text of a request, in this order.
        known |= {key: self.settings[key] for key in ("batchnorm", "loss_on_every_device")}
        known |= {"device": self.device, "device_kind": self.hardware.kind}
        known |= {"cores_per_device": self.hardware.cores_per_device, "variation": str(self.variation)}
        known |= self.own_model.place if self.own_model else {}
        return known | describe_settings(self.settings) | {"crop": self.shape[:2]}

    def request(self) -> str:
        return replace_paths_by_names(json.dumps(self.describe()), self.places)

    @property
    def places(self) -> dict[str, str]:
        """The key of the user's model by its path, which is no part of what is recorded."""
        return {path: key for key, path in self.own_model.place.items()} if self.own_model else {}

    @property
    def layouts(self) -> list[str]:
        """The layouts to observe, each written as devices x nodes.

        A cell over nodes has two devices on two nodes. Any other cell has one device. It also has three devices on one
        node, or two, if the framework supports them and the machine has them.
        """
        if self.over_nodes:
            return [f"{DEVICES_OVER_NODES}x{DEVICES_OVER_NODES}"]
        framework, kind = FRAMEWORKS[self.framework], self.hardware.kind
        most = min(MAX_GATE_DEVICES, self.hardware.devices_per_node, framework.max_devices.get(kind, MAX_GATE_DEVICES))
        is_on_one = self.settings["tier"] == "best" and framework.best_on_one
        if most == 1 or is_on_one or self.settings["batchnorm"] not in framework.batchnorm[kind]:
            return ["1x1"]
        return ["1x1", f"{most}x1"]


def name_setting(key: str, value: Any) -> str:
    """Return the part of file names that distinguishes a value of a setting from its default."""
    text = json.dumps(value, sort_keys=True).strip('"')
    if not re.fullmatch("[a-z0-9.]+", text):
        text = hashlib.sha256(text.encode()).hexdigest()[:8]
    return f"_{key.replace('_', '-')}-{text}"


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
        option = "_mpi" if self.first.settings["horovod_controller"] == "mpi" else ""
        option += "_over-nodes" if self.first.over_nodes else ""
        return f"{self.first.framework}_{self.first.device}{option}-{digest}"

    @property
    def references(self) -> list[str]:
        """The reference files of the tasks on which the cells are observed, without duplicates."""
        return list(dict.fromkeys(f"results/parity/{cell.task}/reference.json" for cell in self.cells))

    @property
    def layouts(self) -> dict[str, list[str]]:
        """The keys of the cells to observe, by layout (devices x nodes)."""
        layouts: dict[str, list[str]] = {}
        for cell in self.cells:
            for layout in cell.layouts:
                layouts.setdefault(layout, []).append(cell.key)
        return layouts

    def request(self) -> str:
        """Return the cells by key, each with the folder of its task, as gate.observe expects them."""
        cells = {cell.key: cell.describe() | {"task": f"results/parity/{cell.task}"} for cell in self.cells}
        entry = FRAMEWORKS[self.first.framework]
        names = {"framework": self.first.framework}
        names |= {key: getattr(entry, key) for key in ("family", "strategy", "launcher")}
        places = {path: key for cell in self.cells for path, key in cell.places.items()}
        return replace_paths_by_names(json.dumps({"framework": names, "cells": cells}), places)


def group_cells(cells: Iterable[ParityCell]) -> list[ParityGroup]:
    """Group cells that one start can observe: same framework, environment, device and launcher.

    All or none are over nodes.
    """
    groups: dict[tuple, list[ParityCell]] = {}
    for cell in cells:
        where = (cell.device, cell.over_nodes)
        common = (cell.framework, cell.environment, *where, cell.settings["horovod_controller"])
        groups.setdefault(common, []).append(cell)
    return [ParityGroup(tuple(sorted(group, key=lambda cell: cell.key))) for group in groups.values()]


@cache
def list_gated_defaults() -> dict[str, Any]:
    """Return the default of every setting that is part of the cell or not checked.

    The task must give the values of the others itself, or no specification of it is complete.
    """
    defaults = list_defaults()
    optimizer = {key: value for key, value in defaults["optimizer"].items() if OPTIMIZER[key].gate.by != TASK}
    known = {key: value for key, value in defaults.items() if SETTINGS[key].gate.by != TASK}
    return known | {"optimizer": optimizer}


def describe_planned(runs: list[tuple[tuple[int, int], dict[str, Any]]]) -> dict[str, list]:
    """Return the layouts (devices, nodes) of runs, and (setting, value, why) of settings that the gate does not check.

    runs: the layout of each, and its complete settings. Only values that are not the default are returned.
    """
    unchecked = {key: setting for key, setting in SETTINGS.items() if setting.gate.by == NONE}
    used = {
        (key, json.dumps(settings[key]), setting.gate.how)
        for _, settings in runs
        for key, setting in unchecked.items()
        if settings.get(key, setting.default) != setting.default
    }
    return {"layouts": sorted({layout for layout, _ in runs}), "settings": sorted(used)}
