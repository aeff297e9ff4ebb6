"""
Defines a planned run, its path, and its complete specification.

The specification is derived from the path and from the settings that differ from their defaults. The planner and the
job that starts the run both derive it here. A new key with a default therefore does not rerun finished runs.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

from howmanygpus.config.schema import study_defaults
from howmanygpus.measure.spec import INDEPENDENT, MODEL_PATH_KEYS, LaunchSpec, OptimizerSpec, ResizedCropSpec, RunSpec
from howmanygpus.registry import FRAMEWORKS
from howmanygpus.settings import BY_FRAMEWORK, OPTIMIZER, SETTINGS, list_defaults
from howmanygpus.study.loaders import resolve_loader
from howmanygpus.study.networks import choose_normalization

HOW = (
    "framework",
    "variant",
    "family",
    "strategy",
    "launcher",
    "data_dir",
    "weights_file",
    "cores_per_device",
    "num_nodes",
    *(key for key, setting in SETTINGS.items() if not setting.work),
    *(f"optimizer.{key}" for key, setting in OPTIMIZER.items() if not setting.work),
)
"""Keys of a specification that say how a run does its work. Those that are not listed say which work it does."""
PATH = re.compile(
    r"(?P<study>[^/]+)/(?P<framework>[^/]+)/(?P<variant>[^/]+)/(?P<input>[^_]+)_(?P<precision>[^_]+)_(?P<device>[^_]+)"
    r"_gpus(?P<num_gpus>\d+)(?:_nodes(?P<num_nodes>\d+))?"
    r"_batch(?P<per_device_batch_size>\d+)_repeat(?P<repeat>\d+)"
)


@dataclass(frozen=True)
class Run:
    """One planned run.

    num_nodes: None for the fewest nodes that hold the devices, which is what a study without the key has.
    unsupported: why the run is not started; empty if it is supported.
    """

    study: str
    framework: str
    variant: str
    input: str
    precision: str
    device: str
    num_gpus: int
    per_device_batch_size: int
    repeat: int
    num_nodes: int | None = None
    unsupported: str = field(default="", compare=False)

    @cached_property
    def path(self) -> str:
        """The folder of the run below results/runs/."""
        nodes = "" if self.num_nodes is None else f"_nodes{self.num_nodes}"
        return (
            f"{self.study}/{self.framework}/{self.variant}/{self.input}_{self.precision}_{self.device}"
            f"_gpus{self.num_gpus}{nodes}_batch{self.per_device_batch_size}_repeat{self.repeat}"
        )

    @property
    def identity(self) -> dict:
        """The part of the specification that the path contains. The number of nodes is in the settings."""
        return {key: value for key, value in vars(self).items() if key not in ("num_nodes", "unsupported", "path")}

    @classmethod
    def from_path(cls, path: str) -> "Run":
        match = PATH.fullmatch(path)
        if match is None:
            raise ValueError(f"{path!r} is not the folder of a run below results/runs/; give one of the plan's runs")
        parts = match.groupdict().items()
        values: dict[str, Any] = {key: int(value) if value and value.isdigit() else value for key, value in parts}
        return cls(**values)


def name_configuration(run: str) -> str:
    """Return the path of a run without its repeat."""
    return run.rpartition("_repeat")[0]


def usual_layout(device: str) -> dict:
    """Return the default layout of a device, which is left out of a run's settings."""
    return {"num_nodes": 1, "cores_per_device": 1, "device_kind": "cpu" if device == "cpu" else "cuda"}


def drop_usual_layout(layout: dict, device: str) -> dict:
    usual = usual_layout(device)
    return {key: value for key, value in layout.items() if value != usual[key]}


def complete_spec(run: Run, settings: dict, data_dir: str, weights_file: str) -> dict:
    """Return the complete specification of a run: the fields of howmanygpus.measure.spec.RunSpec.

    settings: dataset, model, the path of a user's own below one of MODEL_PATH_KEYS, and all values that differ from
    the default layout or from the schema's defaults.
    """
    framework, defaults = FRAMEWORKS[run.framework], list_defaults()
    training = {key: settings.get(key, default) for key, default in defaults.items()}
    training["normalization"] = choose_normalization(training, settings["model"])
    optimizer = defaults["optimizer"] | settings.get("optimizer", {})
    return {
        **run.identity,
        "dataset": settings["dataset"],
        "model": settings["model"],
        "model_options": settings.get("model_options", {}),
        **{key: settings.get(key, usual) for key, usual in usual_layout(run.device).items()},
        "global_batch_size": run.num_gpus * run.per_device_batch_size * training["accumulate"],
        "seed": settings.get("seed", study_defaults()["seed"]) + run.repeat - 1,
        "family": framework.family,
        "strategy": framework.strategy,
        "launcher": INDEPENDENT if training["independent"] else framework.launcher,
        "data_dir": data_dir,
        "weights_file": weights_file,
        **{place: settings.get(place) for place in MODEL_PATH_KEYS},
        **training,
        **resolve_loader(run.framework, training),
        "optimizer": {key: value for key, value in optimizer.items() if key != BY_FRAMEWORK},
    }


def check_fields(declared: Iterable[str], known: Iterable[str], table: str, typed: str) -> None:
    """Raise TypeError unless a table of howmanygpus.settings and the fields of its typed form have the same keys.

    declared: keys of the table. known: names of the fields.
    """
    if lacking := sorted(set(declared) - set(known)):
        key = lacking[0]
        what = f"is declared in {table} of howmanygpus/settings.py, but {typed} in measure/spec.py has no field for it"
        raise TypeError(f"the setting {key!r} {what}; add `{key}: <type>` there, for the code that uses it")
    if surplus := sorted(set(known) - set(declared)):
        what = f"of {typed} in measure/spec.py is not declared in {table} of howmanygpus/settings.py"
        raise TypeError(f"the field {surplus[0]!r} {what}; add an entry there, or remove the field")


# The runs' code does not read the table, so that no text of it reruns them. Here both are known.
check_fields(
    ("data_dir", "weights_file", *MODEL_PATH_KEYS, *(field.name for field in fields(LaunchSpec)), *SETTINGS),
    (field.name for field in fields(RunSpec)),
    "SETTINGS",
    RunSpec.__name__,
)
check_fields(
    SETTINGS["random_resized_crop"].accepts["properties"],
    (field.name for field in fields(ResizedCropSpec)),
    "random_resized_crop",
    ResizedCropSpec.__name__,
)
check_fields(OPTIMIZER, (field.name for field in fields(OptimizerSpec)), "OPTIMIZER", OptimizerSpec.__name__)
