"""
The typed form of the specification that the planner writes for a run.

The planner fills in every default (howmanygpus/settings.py is their only home), so nothing here has one. It refuses to
plan if the settings that are declared there are not the fields here.
"""

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path

SYNTHETIC, RESIDENT = "synthetic", "resident"
RANDOM_INPUTS = (SYNTHETIC, RESIDENT)
"""Inputs with random images and labels, on which nothing is evaluated."""
INDEPENDENT = "independent"
"""Launcher of runs on one device each that go on at the same time, see measure.launch.independent."""
MODEL_PATH_KEYS = ("model_file", "model_folder")
"""Keys of a run that say where a user's model is. They rerun nothing, because its code is a parameter of its own."""


@dataclass(frozen=True)
class OptimizerSpec:
    """Update rule and learning-rate schedule. Its keys are described in howmanygpus/settings.py."""

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
class ResizedCropSpec:
    """A random part of each training image, resized. size: height and width of the result, in pixels.

    area: least and largest part of the image's pixels. aspect: least and largest ratio of the part's width to its
    height.
    """

    size: tuple[int, int]
    area: tuple[float, float]
    aspect: tuple[float, float]


@dataclass(frozen=True)
class LaunchSpec:
    """The fields that every run has, also one that starts a program of the user (measure.program).

    accumulate: batches of per_device_batch_size images that each device takes for one optimizer step.
    device: its name in the machine file; device_kind: `cpu` or `cuda`, how frameworks reach it.
    model_options: those that differ from the model's own, see its OPTIONS.
    family, strategy: folder and file in measure/frameworks/ of the code that trains.
    """

    study: str
    dataset: str
    model: str
    model_options: dict
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

    @property
    def devices_per_node(self) -> int:
        """Devices of this run on each of its nodes, over which they are spread evenly."""
        return self.num_gpus // self.num_nodes

    def to_dict(self) -> dict:
        return dataclasses.asdict(self)


@dataclass(frozen=True)
class RunSpec(LaunchSpec):
    """One planned run of a framework, complete.

    model_file: the user's own model in one file, model_folder: one in a folder; both None for a network of
        measure/networks/.
    init: `random`, `imagenet`, or `sha256:` and the hash of the user's file of initial weights.
    label_smoothing: 0 for none; other values only if an image has one label.
    normalization: `data`, or a key of measure.input.prepared.NORMALIZATIONS.
    loader: `shared`, or the framework's own: its module below measure/frameworks/. loader_workers: of each device.
    loss_scale: initial loss scale of fp16. independent: whether each device does a run of its own.
    exchange: `all`, or `none` if each replica trains alone, whatever the others do.
    loader_kind: `threads` or `processes`.
    eval_prefetch: whether an evaluation's first batches are read in the last steps before it.
    frozen_batches: whether every epoch has the batches of the first one, see measure.input.frozen.
    eval_batchnorm: statistics of BatchNorm in evaluation: `running` for the mean of all devices' running statistics,
        `first` for those of the first device, or `batch` for those of the images predicted together.
    loss_on_first_device: whether the loss is computed on the first device of each process, from gathered logits.
    reads_every_loss: whether the host reads the loss of each step before it enqueues the next.
    memory_growth: whether TensorFlow takes a GPU's memory piece by piece; None for the framework's usual way.
    """

    data_dir: str
    weights_file: str
    model_file: str | None
    model_folder: str | None

    epochs: int | None
    steps: int | None
    warmup_steps: int
    window_steps: int
    eval_every_epochs: int
    gradient_noise_every_epochs: int | None
    evaluate: bool
    trace: bool
    eval_batch_size: int | None
    eval_devices: str
    eval_prefetch: bool
    init: str
    normalization: str
    label_smoothing: float
    random_flip: bool
    random_crop_padding: int
    crop: tuple[int, int] | None
    random_resized_crop: ResizedCropSpec | None
    prefetch: int
    loader: str
    loader_workers: int
    loader_kind: str
    frozen_batches: bool
    batchnorm: str
    eval_batchnorm: str
    tier: str
    loss_on_every_device: bool
    loss_on_first_device: bool
    reads_every_loss: bool
    memory_growth: bool | None
    gradient_compression: str
    exchange: str
    powersgd_rank: int
    loss_scale: float
    horovod_controller: str
    independent: bool
    optimizer: OptimizerSpec

    @property
    def exchanges(self) -> bool:
        """Whether the devices exchange their gradients."""
        return self.exchange == "all"

    @property
    def crop_size(self) -> tuple[int, int] | None:
        """Height and width to which all images are cropped, in training and evaluation; None if they stay whole."""
        return self.random_resized_crop.size if self.random_resized_crop else self.crop

    @classmethod
    def from_dict(cls, values: dict) -> "RunSpec":
        """Build from plain values; a missing or unknown key raises TypeError naming it."""
        resized = values["random_resized_crop"]
        optimizer = OptimizerSpec(**values["optimizer"])
        part = ResizedCropSpec(**resized) if resized else None
        return cls(**{**values, "optimizer": optimizer, "random_resized_crop": part})

    @classmethod
    def read(cls, path: str | Path) -> "RunSpec":
        return cls.from_dict(json.loads(Path(path).read_text()))
