"""
What one run shall do: the typed form of the specification that the planner writes.

The planner fills in every default (workflow/schemas/config.schema.yaml is their only home), so nothing here has one.
"""

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path

SYNTHETIC, RESIDENT = "synthetic", "resident"
RANDOM_INPUTS = (SYNTHETIC, RESIDENT)
"""Inputs with random images and labels, on which nothing is evaluated."""


@dataclass(frozen=True)
class OptimizerSpec:
    """Update rule and learning-rate schedule; rates are per step and already without units."""

    name: str
    learning_rate: float
    momentum: float
    beta1: float
    beta2: float
    epsilon: float
    weight_decay: float
    weight_decay_on: str
    lr_scaling: str
    lr_reference_batch_size: int | None
    lr_warmup_epochs: float
    lr_schedule: str
    lr_step_epochs: list[float]
    lr_step_factor: float


@dataclass(frozen=True)
class RunSpec:
    """One planned run, complete.

    accumulate: batches of per_device_batch_size images that each device takes for one optimizer step.
    device: its name in the machine file; device_kind: `cpu` or `cuda`, how frameworks reach it.
    family, strategy: folder and file in train/frameworks/ of the code that trains.
    loader: `shared`, or the framework's own: its module below train/frameworks/. loader_workers: of each device.
    loader_kind: `threads` or `processes`.
    """

    study: str
    dataset: str
    model: str
    framework: str
    variant: str
    input: str
    precision: str
    device: str
    device_kind: str
    num_nodes: int
    num_gpus: int
    per_device_batch_size: int
    accumulate: int
    global_batch_size: int
    repeat: int
    seed: int

    family: str
    strategy: str
    launcher: str
    cores_per_device: int
    data_dir: str
    weights_file: str

    epochs: int | None
    steps: int | None
    warmup_steps: int
    window_steps: int
    eval_every_epochs: int
    eval_batch_size: int | None
    eval_devices: str
    random_flip: bool
    random_crop_padding: int
    prefetch: int
    loader: str
    loader_workers: int
    loader_kind: str
    batchnorm: str
    tier: str
    loss_on_every_device: bool
    gradient_compression: str
    powersgd_rank: int
    horovod_controller: str
    optimizer: OptimizerSpec

    @property
    def devices_per_node(self) -> int:
        """Of this run: its devices are spread evenly over its nodes."""
        return self.num_gpus // self.num_nodes

    def to_dict(self) -> dict:
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: dict) -> "RunSpec":
        """Build from plain values; a missing or unknown key raises TypeError naming it."""
        return cls(**{**values, "optimizer": OptimizerSpec(**values["optimizer"])})

    @classmethod
    def read(cls, path: str | Path) -> "RunSpec":
        return cls.from_dict(json.loads(Path(path).read_text()))
