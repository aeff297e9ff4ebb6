"""
Defines a planned run, its path, and its complete specification.

The specification is derived from the path and from the settings that differ from their defaults. The planner and the
job that starts the run both derive it here. A new key with a default therefore does not rerun finished runs.
"""

import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from howmanygpus.plan.config.learning import BY_FRAMEWORK
from howmanygpus.plan.config.schema import study_defaults
from howmanygpus.plan.frameworks import FRAMEWORKS
from howmanygpus.plan.loaders import resolve_loader
from howmanygpus.plan.networks import choose_normalization
from howmanygpus.train.spec import PLACES_OF_MODELS

TRAINING_KEYS = (
    *("epochs", "steps", "warmup_steps", "window_steps"),
    *("eval_every_epochs", "gradient_noise_every_epochs", "eval_batch_size", "eval_devices"),
    *("init", "normalization", "label_smoothing", "random_flip", "random_crop_padding", "crop", "random_resized_crop"),
    *("prefetch", "optimizer"),
    *("loader", "loader_workers", "loader_kind"),
    *("batchnorm", "tier", "loss_on_every_device", "gradient_compression", "powersgd_rank"),
    *("horovod_controller", "accumulate", "loss_scale"),
)
"""Keys of a study that change what a run does, apart from the keys in its path."""

EVAL_BATCHNORM = "eval_batchnorm"
"""A setting that only an unfair protocol of a study changes."""

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


def usual_layout(device: str) -> dict:
    """Return the default layout of a device, which is left out of a run's settings."""
    return {"num_nodes": 1, "cores_per_device": 1, "device_kind": "cpu" if device == "cpu" else "cuda"}


def drop_usual_layout(layout: dict, device: str) -> dict:
    usual = usual_layout(device)
    return {key: value for key, value in layout.items() if value != usual[key]}


def complete_spec(run: Run, settings: dict, data_dir: str, weights_file: str) -> dict:
    """Return the complete specification of a run: the fields of howmanygpus.train.spec.RunSpec.

    settings: dataset, model, the path of a user's own below one of PLACES_OF_MODELS, and all values that differ from
    the default layout or from the schema's defaults.
    """
    framework, defaults = FRAMEWORKS[run.framework], study_defaults()
    training = {key: settings.get(key, defaults[key]) for key in TRAINING_KEYS}
    training["normalization"] = choose_normalization(training, settings["model"])
    optimizer = defaults["optimizer"] | settings.get("optimizer", {})
    return {
        **run.identity,
        "dataset": settings["dataset"],
        "model": settings["model"],
        "model_options": settings.get("model_options", {}),
        **{key: settings.get(key, usual) for key, usual in usual_layout(run.device).items()},
        "global_batch_size": run.num_gpus * run.per_device_batch_size * training["accumulate"],
        "seed": settings.get("seed", defaults["seed"]) + run.repeat - 1,
        "family": framework.family,
        "strategy": framework.strategy,
        "launcher": framework.launcher,
        "data_dir": data_dir,
        "weights_file": weights_file,
        **{place: settings.get(place) for place in PLACES_OF_MODELS},
        **training,
        EVAL_BATCHNORM: settings.get(EVAL_BATCHNORM, "running"),
        **resolve_loader(run.framework, training),
        "optimizer": {key: value for key, value in optimizer.items() if key != BY_FRAMEWORK},
    }
