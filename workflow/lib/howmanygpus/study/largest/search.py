"""
One search for the largest batch that fits on a device, and its result.

The memory that a batch needs depends on the network, the framework and some settings, but not on the images. Studies,
variants and inputs that agree in these share a search. A search that failed in this call has no result, and a later
call repeats it.
"""

import hashlib
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from howmanygpus.config.schema import study_defaults
from howmanygpus.settings import OPTIMIZER, SETTINGS
from howmanygpus.site.retrying import STARTED
from howmanygpus.study.runs import Run, complete_spec

FAILED = ".failed.json"
"""Suffix of the file that says why a search failed, in place of its record."""
REFUSED, GAVE_UP = "refused", "failed"
"""Limits of searches that found nothing."""

Find = Callable[[str], dict | None]
"""A function that maps the path of a search's record to its result; None if that is not known yet.

Keys: `largest` (0 if there is none), `limit` (what prevents a larger one, or `failed` or `refused`) and `reason`.
"""


def read_found(record: str) -> dict | None:
    """Return the result of a search, as Find describes it. record: path of its record."""
    path = Path(record)
    if path.exists():
        return select(json.loads(path.read_text()))
    failed = path.with_suffix(FAILED)
    if failed.exists() and (found := json.loads(failed.read_text()))["call"] == os.environ.get(STARTED, ""):
        return select(found)
    return None


def select(found: dict) -> dict:
    return {key: found[key] for key in ("largest", "limit", "reason")}


FOLDER = "results/batch_sizes"
STUDY = "batch_search"
"""Kind of the job of a search, and name of the study in the specification of a try."""
LEARNING_RATE = 1e-6
"""Learning rate of a try, at which nothing diverges."""
STEPS, CONFIRMING_STEPS = 8, 24
"""Optimizer steps of a try, and of the try that confirms the largest size, besides those of the batches read ahead."""
ONCE = 10**6
"""Epochs between two evaluations of a try, which has one at its end."""


class Recorded(ABC):
    """The record of a search. work_name: what distinguishes its work in file names."""

    bound: int

    @property
    @abstractmethod
    def work_name(self) -> str: ...

    @property
    def name(self) -> str:
        return f"{self.work_name}_upto{self.bound}"

    @property
    def record(self) -> str:
        return f"{FOLDER}/{self.name}.json"


@dataclass(frozen=True)
class Search(Recorded):
    """A search that a study needs.

    settings: settings that differ from their defaults, as study.runs.complete_spec takes them. image_shape: shape of
    the network's input. bound: the largest batch size that the data set allows.
    """

    framework: str
    precision: str
    device: str
    network_name: str
    settings: dict[str, Any]
    image_shape: tuple[int, int, int]
    num_classes: int
    multi_label: bool
    bound: int

    @property
    def weights_file(self) -> str:
        shape = "x".join(map(str, self.image_shape))
        return f"results/weights/{self.network_name}_{shape}_classes{self.num_classes}_seed1.safetensors"

    @cached_property
    def work(self) -> dict:
        """Everything that the memory of a batch depends on, apart from code and pins."""
        identity = {"framework": self.framework, "precision": self.precision, "device": self.device}
        shape = {"image_shape": list(self.image_shape), "num_classes": self.num_classes}
        return {**identity, **shape, "multi_label": self.multi_label, "settings": self.settings}

    @cached_property
    def work_name(self) -> str:
        """The part of file names that distinguishes this work. Searches with other bounds share its tries."""
        text = json.dumps([self.network_name, self.work], sort_keys=True)
        shape = "x".join(map(str, self.image_shape))
        words = [self.framework, self.network_name, shape, self.precision, self.device]
        return f"{'_'.join(words)}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"

    def request(self) -> str:
        """Return as JSON what the script of the search needs."""
        more = self.settings.get("prefetch", study_defaults()["prefetch"])
        steps = [more + STEPS, more + CONFIRMING_STEPS]
        return json.dumps({"name": self.work_name, "bound": self.bound, "steps": steps, **self.work}, sort_keys=True)


MOST_TIMES = 2**12
"""Largest batch that is tried with a program, in units of the first one: nobody knows how much data it has."""
CONTEXT = ("device_kind", "cores_per_device")


@dataclass(frozen=True)
class ProgramSearch(Recorded):
    """A search with the command of a user's program.

    framework: the program's name. settings: as complete_program_spec takes them. bound: the largest size that is tried.
    step: of which all sizes are multiples, and with which the search begins unless it is 1.
    """

    framework: str
    variant: str
    precision: str
    device: str
    settings: dict[str, Any]
    bound: int
    step: int

    @cached_property
    def work(self) -> dict:
        """Everything that the memory of a batch depends on, apart from code and pins."""
        kept = {key: value for key, value in self.settings.items() if key in ("program", *CONTEXT)}
        names = ("framework", "variant", "precision", "device", "step")
        return {name: getattr(self, name) for name in names} | {"settings": kept}

    @cached_property
    def work_name(self) -> str:
        text = json.dumps(self.work, sort_keys=True)
        words = [self.framework, self.variant, self.precision, self.device]
        return f"{'_'.join(words)}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"

    def request(self) -> str:
        """Return as JSON what the script of the search needs."""
        steps = [STEPS, CONFIRMING_STEPS]
        return json.dumps({"name": self.work_name, "bound": self.bound, "steps": steps, **self.work}, sort_keys=True)


def select_settings(settings: dict) -> dict:
    """Return the settings of a run, without defaults, on which the memory of its batch can depend."""
    needed = {"model", "model_options", "cores_per_device", "device_kind"}
    needed |= {key for key, setting in SETTINGS.items() if setting.memory and key != "optimizer"}
    kept = {key: value for key, value in settings.items() if key in needed}
    if optimizer := {key: value for key, value in settings.get("optimizer", {}).items() if OPTIMIZER[key].memory}:
        kept["optimizer"] = optimizer
    # The memory depends on whether the noise is measured, and not on how often.
    return kept | ({"gradient_noise_every_epochs": ONCE} if settings.get("gradient_noise_every_epochs") else {})


def complete_try(request: dict, batch: int, is_confirmation: bool, data_dir: str, weights_file: str, own: dict) -> dict:
    """Return the complete specification of a try: the fields of howmanygpus.measure.spec.RunSpec.

    request: as Search.request returns it. own: where a user's model is, see measure.spec.MODEL_PATH_KEYS.
    """
    settings = request["settings"] | own | {"dataset": "random", "steps": request["steps"][is_confirmation]}
    settings |= {"warmup_steps": 1, "eval_every_epochs": ONCE}
    settings["optimizer"] = settings.get("optimizer", {}) | {"learning_rate": LEARNING_RATE}
    identity = (request["framework"], "base", "arrays", request["precision"], request["device"])
    return complete_spec(Run(STUDY, *identity, 1, batch, 1), settings, data_dir, weights_file)
