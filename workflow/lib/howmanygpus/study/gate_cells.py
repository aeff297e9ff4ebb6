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
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from functools import cache, cached_property
from typing import Any

from howmanygpus.gate.task_forms import SGD_FORM, Variation, make_optimizer
from howmanygpus.registry import FRAMEWORKS
from howmanygpus.settings import CELL, NONE, OPTIMIZER, SETTINGS, TASK, list_defaults
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


@dataclass(frozen=True)
class TrainingPath:
    """How a cell's runs train: settings of variants that change the executed code or the exchanged gradients.

    loader: `shared`, or the module of the framework's own. input: the form of the images, which is `arrays` for the
    shared loader. powersgd_rank: 0 without that compression.
    """

    tier: str
    loader: str
    loader_kind: str
    input: str
    gradient_compression: str
    powersgd_rank: int
    horovod_controller: str

    @classmethod
    def find(cls, framework: str, source: str, settings: dict) -> "TrainingPath":
        """Return the path of a run. source: its input; settings: settings of its variant."""
        loader = resolve_loader(framework, settings)
        is_native = loader["loader"] != SHARED
        compression = settings["gradient_compression"]
        return cls(
            tier=settings["tier"],
            **loader,
            # JPEG is lossy; the frameworks' decoders differ by up to one level.
            input="png" if is_native and source in FILES else "arrays",
            gradient_compression=compression,
            powersgd_rank=settings["powersgd_rank"] if compression == "powersgd" else 0,
            horovod_controller=settings["horovod_controller"],
        )

    @property
    def option(self) -> str:
        """The part of file names that distinguishes this training path from the usual one."""
        option = f"_{self.tier}" if self.tier == "best" else ""
        option += f"_{self.loader}-{self.loader_kind}-{self.input}" if self.loader != SHARED else ""
        rank = self.powersgd_rank or ""
        option += f"_{self.gradient_compression}{rank}" if self.gradient_compression != "none" else ""
        return option + (f"_{self.horovod_controller}" if self.horovod_controller != "gloo" else "")


@dataclass(frozen=True)
class ParityCell:
    """One cell of the parity gate. All runs of a cell share its verdict; runs on several nodes have a separate cell.

    model_options: options that differ from the model's defaults. own_model: the user's model; None for a network of the
    workflow. shape: height, width and channels of the images. variation: of the task. more: other settings that differ
    from their defaults (study.gate_cells.select_more_settings).
    """

    framework: str
    model: str
    model_options: dict
    shape: tuple[int, int, int]
    num_classes: int
    precision: str
    device: str
    batchnorm: str
    loss_on_every_device: bool
    device_kind: str
    cores_per_device: int
    over_nodes: bool
    path: TrainingPath
    variation: Variation
    own_model: OwnModel | ModelFolder | None = None
    more: dict = field(default_factory=dict)

    @property
    def code_of_model(self) -> str | OwnModel | ModelFolder:
        return self.own_model or self.model

    @property
    def environment(self) -> str:
        return FRAMEWORKS[self.framework].resolve_environment(self.device_kind, self.path.loader)

    @property
    def task(self) -> str:
        """The name of the task's folder below results/parity/, which the cells of all frameworks share."""
        height, width, channels = self.shape
        own, options = self.own_model, self.model_options
        network = own.name_network(options) if own else name_network(self.model, options)
        return f"{network}_{height}x{width}x{channels}_classes{self.num_classes}_{self.batchnorm}{self.variation}"

    @property
    def _options(self) -> str:
        """The part of file names that distinguishes how the cell trains from the usual way."""
        option = "_loss-on-every-device" if self.loss_on_every_device else ""
        return option + self.path.option + "".join(map(name_setting, self.more.items()))

    @property
    def verdict(self) -> str:
        option = self._options + ("_over-nodes" if self.over_nodes else "")
        is_dali = self.path.loader == FRAMEWORKS[self.framework].dali_loader
        loader = SHARED if self.path.loader == SHARED else DALI if is_dali else NATIVE
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
        path = replace(self.path, gradient_compression="none", powersgd_rank=0)
        strict = replace(self, precision="fp32", path=path)
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
        what = ("framework", "model", "model_options", "precision", "batchnorm", "loss_on_every_device")
        where = ("device", "device_kind", "cores_per_device")
        known = {key: getattr(self, key) for key in (*what, *where)} | {"variation": str(self.variation)}
        known |= self.own_model.place if self.own_model else {}
        known |= {"more": self.more} if self.more else {}
        return known | vars(self.path) | {"crop": self.shape[:2]}

    def request(self) -> str:
        return replace_paths_by_names(json.dumps(self.describe()), self.places)

    @property
    def places(self) -> dict[str, str]:
        """The key of the user's model by its path, which is no part of what is recorded."""
        return {path: key for key, path in self.own_model.place.items()} if self.own_model else {}

    def layouts(self, device: Device) -> list[str]:
        """Return the layouts to observe, each written as devices x nodes.

        A cell over nodes has two devices on two nodes. Any other cell has one device. It also has three devices on one
        node, or two, if the framework supports them and the machine has them.
        """
        if self.over_nodes:
            return [f"{DEVICES_OVER_NODES}x{DEVICES_OVER_NODES}"]
        framework = FRAMEWORKS[self.framework]
        most = min(
            MAX_GATE_DEVICES, device.devices_per_node, framework.max_devices.get(self.device_kind, MAX_GATE_DEVICES)
        )
        is_on_one = self.path.tier == "best" and framework.best_on_one
        if most == 1 or is_on_one or self.batchnorm not in framework.batchnorm[self.device_kind]:
            return ["1x1"]
        return ["1x1", f"{most}x1"]


def name_setting(setting: tuple[str, Any]) -> str:
    """Return the part of file names that distinguishes a value of a setting from its default."""
    key, value = setting
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
        option = "_mpi" if self.first.path.horovod_controller == "mpi" else ""
        option += "_over-nodes" if self.first.over_nodes else ""
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
        """Return the cells by key, each with the folder of its task, as gate.observe expects them."""
        cells = {cell.key: cell.describe() | {"task": f"results/parity/{cell.task}"} for cell in self.cells}
        entry = FRAMEWORKS[self.first.framework]
        names = {"framework": self.first.framework}
        names |= {key: getattr(entry, key) for key in ("family", "strategy", "launcher")}
        places = {path: key for cell in self.cells for path, key in cell.places.items()}
        return replace_paths_by_names(json.dumps({"framework": names, "cells": cells}), places)


def group_cells(cells: Iterable[ParityCell]) -> list[ParityGroup]:
    """Group cells that one start can observe: same framework, environment, device, cores and launcher.

    All or none are over nodes.
    """
    groups: dict[tuple, list[ParityCell]] = {}
    for cell in cells:
        where = (cell.device, cell.device_kind, cell.cores_per_device, cell.over_nodes)
        common = (cell.framework, cell.environment, *where, cell.path.horovod_controller)
        groups.setdefault(common, []).append(cell)
    return [ParityGroup(tuple(sorted(group, key=lambda cell: cell.key))) for group in groups.values()]


HELD = {field.name for kind in (ParityCell, TrainingPath, Variation) for field in fields(kind)} | {"accumulate"}
"""Names of a cell's own fields, and the setting that the variation has as `accumulates`."""


@cache
def list_gated_defaults() -> dict[str, Any]:
    """Return the default of every setting that is part of the cell or not checked.

    The task must give the values of the others itself, or no specification of it is complete.
    """
    defaults = list_defaults()
    optimizer = {key: value for key, value in defaults["optimizer"].items() if OPTIMIZER[key].gate.by != TASK}
    known = {key: value for key, value in defaults.items() if SETTINGS[key].gate.by != TASK}
    return known | {"optimizer": optimizer}


def select_more_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """Return what a cell has besides its own fields: settings of the cell that differ from their default.

    settings: complete ones of a run. Keys of the optimizer that the task's optimizer of the same form does not have are
    below `optimizer`.
    """
    defaults = list_defaults()
    given, usual = settings["optimizer"], defaults["optimizer"]
    names = [key for key, setting in SETTINGS.items() if setting.gate.by == CELL and key not in HELD]
    more = {key: settings[key] for key in names if settings.get(key, defaults[key]) != defaults[key]}
    formed = make_optimizer(SGD_FORM)
    names = [key for key, setting in OPTIMIZER.items() if setting.gate.by == CELL and key not in formed]
    own = {key: given[key] for key in names if given[key] != usual[key]}
    return more | ({"optimizer": own} if own else {})


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
