"""
What frameworks do with the gate's tasks, observed outside the workflow and kept in the cache by all it depends on.

Kept observations are judged again by every test. CI observes anew.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from howmanygpus.environments.cache import find_cache
from howmanygpus.files import atomic_folder, hold_lock
from howmanygpus.plan.frameworks import FRAMEWORKS
from howmanygpus.plan.invalidation import syntax
from howmanygpus.plan.invalidation.pins import hash_pins
from howmanygpus.plan.networks import name_network

SHAPE, NUM_CLASSES = ("8", "8", "1"), "10"
CELL = {"precision": "fp32", "device": "cpu", "device_kind": "cpu", "batchnorm": "local", "loss_on_every_device": False}
CELL |= {"cores_per_device": 1, "tier": "stock", "loader": "shared", "loader_kind": "threads", "input": "arrays"}
CELL |= {"model_options": {}, "crop": [int(size) for size in SHAPE[:2]]}
CELL |= {"gradient_compression": "none", "powersgd_rank": 0, "horovod_controller": "gloo", "accumulate": 1}


def hash_library(library: Path) -> str:
    """Hash of the code of a copy of workflow/lib/ that can change what is observed."""
    files = [library / "howmanygpus" / "files.py", *sorted((library / "howmanygpus" / "train").rglob("*.py"))]
    digests = [f"{path.relative_to(library)} {syntax.read_code(path).digest}" for path in files]
    return hashlib.sha256("\n".join(digests).encode()).hexdigest()


def keep(name: str, key: list, scratch: Path, make: Callable[[Path], None]) -> Path:
    """The folder that make(folder) fills, kept by everything in `key`; in CI a new one below `scratch`.

    One folder is kept of each name.
    """
    digest = hashlib.sha256(json.dumps([sys.version, *key]).encode()).hexdigest()[:16]
    parent = (scratch if os.environ.get("CI") else find_cache().with_name("observations")) / name
    with hold_lock(parent.with_suffix(".lock")):
        if not (parent / digest).exists():
            shutil.rmtree(parent, ignore_errors=True)
            with atomic_folder(parent / digest) as partial:
                make(partial)
    return parent / digest


class Observer:
    """Starts frameworks with one copy of the library. Everything it returns is kept, under the name of the copy.

    variables: of all processes' environment, which change nothing that is observed.
    """

    def __init__(self, library: Path, scratch: Path, find_python: Callable[[str], str], **variables: str):
        self.library, self.scratch, self.find_python, self.variables = library, scratch, find_python, variables
        self._code = hash_library(library)

    def task(self, cell: dict) -> Path:
        """Folder of the task and reference of a cell's network. A cell's `loss` is the end of the task's name."""
        cell = CELL | {"loss": ""} | cell
        model, model_options, batchnorm, loss = (cell[key] for key in ("model", "model_options", "batchnorm", "loss"))
        options = ["--model", model, "--options", json.dumps(model_options), "--image-shape", *SHAPE]
        options += ["--num-classes", NUM_CLASSES, "--batchnorm", batchnorm, "--accumulate", str(cell["accumulate"])]

        def make(folder: Path) -> None:
            self._run("pytorch-cpu", ["-W", "ignore", "-m", "howmanygpus.train.parity.reference", *options], folder)

        options += ["--loss", loss] if loss else []
        options += ["--model-folder", cell["model_folder"]] if "model_folder" in cell else []
        key = [self._code, hash_pins("pytorch-cpu"), options]
        network = f"{name_network(model, model_options)}-{batchnorm}{loss}-{cell['accumulate']}"
        return keep(f"{self.library.name}-task-{network}", key, self.scratch, make)

    @staticmethod
    def placement(num_devices: int) -> dict:
        """Let processes share cores if there are fewer cores than devices."""
        return {} if num_devices <= len(os.sched_getaffinity(0)) else {"bind_cores": False}

    def observe(self, names: dict, environment: str, cells: dict[str, dict], num_devices: int, **variables) -> Path:
        """Folder with what one start did with some cells, by their names. names: framework, family and so on.

        cells: each with its model and what differs from CELL, and with the end of its task's name if that has a loss.
        variables: of the processes' environment.
        """
        described = {key: CELL | {"framework": names["framework"]} | cell for key, cell in cells.items()}
        tasks = {key: self.task(cell) for key, cell in described.items()}
        for cell in described.values():
            cell.pop("loss", None)
        request = {key: cell | {"task": str(tasks[key])} for key, cell in described.items()}
        options = ["--request", json.dumps({"framework": names, "cells": request}), "--keys", *request]
        options += ["--num-devices", str(num_devices), "--placement", json.dumps(self.placement(num_devices))]

        def make(folder: Path) -> None:
            self._run(environment, ["-m", "howmanygpus.train.parity.observe", *options], folder, **variables)

        key = [self._code, hash_pins(environment), options, variables]
        name = f"{self.library.name}-{names['framework']}-{'-'.join(request)}-{num_devices}"
        return keep(name, key, self.scratch, make)

    def _run(self, environment: str, words: list[str], folder: Path, **variables) -> None:
        command = [self.find_python(environment), *words, "--folder", str(folder)]
        variables = os.environ | {"PYTHONPATH": str(self.library), **self.variables, **variables}
        result = subprocess.run(command, env=variables, capture_output=True, text=True)
        assert result.returncode == 0, result.stdout[-1000:] + result.stderr[-3000:]


def names_of(framework: str) -> dict:
    entry = FRAMEWORKS[framework]
    return {"framework": framework} | {key: getattr(entry, key) for key in ("family", "strategy", "launcher")}
