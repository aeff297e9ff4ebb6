"""What frameworks do with the gate's tasks, observed outside the workflow and kept by all it depends on."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from gate.faults import NONE
from helpers.observations import COMPLETE, hash_code, keep
from howmanygpus.base.environment import KEEP
from howmanygpus.files import sha256_of_file
from howmanygpus.gate.judge import Comparison, judge
from howmanygpus.gate.task import WEIGHTS
from howmanygpus.measure.input.description import DESCRIPTION
from howmanygpus.registry import FRAMEWORKS
from howmanygpus.settings import list_defaults
from howmanygpus.study.gate_cells import describe_settings, list_gated_defaults, select_settings
from howmanygpus.study.invalidation.pins import hash_pins
from howmanygpus.study.networks import name_network

SHAPE, NUM_CLASSES = ("8", "8", "1"), "10"
ADAM = "adam-decayweights-linear-sqrtscaled"
"""Form of the optimizer of most cells, whose decay, schedule and scaling are not those of the task's sgd."""
SETTINGS = list_defaults()
CELL = {"precision": "fp32", "device": "cpu", "device_kind": "cpu", "cores_per_device": 1, "model_options": {}}
CELL |= describe_settings(select_settings("pytorch_ddp", "arrays", SETTINGS))
CELL |= {"crop": [int(size) for size in SHAPE[:2]], "variation": f"_{ADAM}"}
DEVICES = ["--devices", "1", "2", "3"]
"""Those with which the tests compare."""
DEFAULTS = ["--defaults", json.dumps(list_gated_defaults())]
CODE = (
    "howmanygpus/files.py",
    "howmanygpus/base/**/*.py",
    "howmanygpus/measure/**/*.py",
    "howmanygpus/gate/**/*.py",
)
"""The code of a copy of workflow/lib/ that can change what is observed."""
JUDGING = ("allowances", "judge", "page")
"""Modules of gate/ that judge what was observed."""
OF_REFERENCE = (
    "cross_entropy",
    "own",
    "own_folder",
    "rates",
    "reference",
    "relus",
    "rounding",
    "rounding_noise",
    "shards",
)
"""Modules of gate/ that compute a reference, and that no framework executes."""
PATHS = ("model_file", "model_folder")
"""What cells have that is a path."""


class Observer:
    """Starts frameworks with one copy of the library. Everything it returns is kept, under the name of the copy.

    variables: of all processes' environment, which change nothing that is observed.
    """

    def __init__(self, library: Path, scratch: Path, resolve_python: Callable[[str], str], **variables: str):
        self.library, self.scratch, self.resolve_python, self.variables = library, scratch, resolve_python, variables
        self._code = hash_code({library: CODE}, tuple(f"gate/{module}.py" for module in JUDGING))
        self._observing = hash_code({library: CODE}, tuple(f"gate/{module}.py" for module in (*JUDGING, *OF_REFERENCE)))

    def task(self, cell: dict, num_devices: int = 2) -> Path:
        """Folder of the task and reference of a cell's network and variation.

        For reduced precision it is a copy that also has what that may change on `num_devices` devices, which takes
        longer to compute than everything else. The changes on one number of devices do not depend on the others.
        """
        cell = CELL | cell
        model, model_options, batchnorm = (cell[key] for key in ("model", "model_options", "batchnorm"))
        options = ["--model", model, "--options", json.dumps(model_options), "--image-shape", *SHAPE]
        options += ["--num-classes", NUM_CLASSES, "--batchnorm", batchnorm, "--variation", cell["variation"], *DEFAULTS]
        is_exact = cell["precision"] == "fp32"
        options += DEVICES if is_exact else ["--devices", str(num_devices)]
        module = "reference" if is_exact else "rounding_noise"

        def make(folder: Path) -> None:
            if not is_exact:
                shutil.copytree(self.task(cell | {"precision": "fp32"}), folder, dirs_exist_ok=True)
                (folder / COMPLETE).unlink()
            self._run("pytorch-cpu", ["-W", "ignore", "-m", f"howmanygpus.gate.{module}", *words], folder)

        key = [self._code, hash_pins("pytorch-cpu"), options, [module]]
        words = [*options, *(["--model-folder", cell["model_folder"]] if "model_folder" in cell else [])]
        network = f"{name_network(model, model_options)}-{batchnorm}{cell['variation']}"
        name = f"{self.library.name}-task-{network}-{module}"
        return keep(name if is_exact else f"{name}-{num_devices}", key, self.scratch, make)

    @staticmethod
    def placement(num_devices: int) -> dict:
        """Let processes share cores if there are fewer cores than devices."""
        return {} if num_devices <= len(os.sched_getaffinity(0)) else {"bind_cores": False}

    def observe(self, names: dict, environment: str, cells: dict[str, dict], num_devices: int, **variables) -> Path:
        """Folder with what one start did with some cells, by their names. names: framework, family and so on.

        cells: each with its model and what differs from CELL. variables: of the processes' environment.
        """
        described = {key: CELL | {"framework": names["framework"]} | cell for key, cell in cells.items()}
        # Frameworks read the images and weights alone.
        tasks = {key: self.task(cell | {"precision": "fp32"}) for key, cell in described.items()}
        request = {key: cell | {"task": str(tasks[key])} for key, cell in described.items()}
        options = ["--request", json.dumps({"framework": names, "cells": request}), "--keys", *request]
        options += DEFAULTS
        placement = self.placement(num_devices)
        options += ["--num-devices", str(num_devices), "--placement", json.dumps(placement)]

        def make(folder: Path) -> None:
            self._run(environment, ["-m", "howmanygpus.gate.observe", *options], folder, **variables)

        # Paths are no part of the key, but contents of files.
        observed = {key: {name: cell[name] for name in cell if name not in PATHS} for key, cell in described.items()}
        done = [names, observed, {key: hash_inputs(task) for key, task in tasks.items()}, num_devices, placement]
        key = [self._observing, hash_pins(environment), *done, variables]
        name = f"{self.library.name}-{names['framework']}-{'-'.join(request)}-{num_devices}"
        return keep(name, key, self.scratch, make)

    def _run(self, environment: str, words: list[str], folder: Path, **variables) -> None:
        command = [self.resolve_python(environment), *words, "--folder", str(folder)]
        own = self.variables | variables
        environment = os.environ | {"PYTHONPATH": str(self.library), **own, KEEP: " ".join(own)}
        result = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert result.returncode == 0, result.stdout[-1000:] + result.stderr[-3000:]


def hash_inputs(task: Path) -> list[str]:
    """Return hashes of what frameworks read of a task. The description of the data has those of images and labels."""
    return [sha256_of_file(task / name) for name in (f"arrays/{DESCRIPTION}", WEIGHTS)]


def names_of(framework: str) -> dict:
    entry = FRAMEWORKS[framework]
    return {"framework": framework} | {key: getattr(entry, key) for key in ("family", "strategy", "launcher")}


def judge_fault(
    seen: Path, fault: str, task: Path, tmp_path: Path, strict: dict | None = None, compare_by: type = Comparison
) -> dict:
    """Judge what one start did with a fault. Tasks with the other optimizer are those without a fault."""
    folder = tmp_path / "seen"
    for source in (seen / NONE, seen / fault):
        shutil.copytree(source, folder, dirs_exist_ok=True)
    for specification in seen.glob("*.spec.json"):
        shutil.copy2(specification, folder)
    return judge({(2, 1): folder}, task, strict, compare_by)
