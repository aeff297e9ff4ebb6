"""
Define the task that every framework does before anything is timed.

It has fixed images, fixed weights, six optimizer steps, and evaluations before, during and after them. The images are
larger than the network's input, so that a wrong crop in training or evaluation shows.

The weights are the canonical initial weights, except that biases and BatchNorm's parameters and statistics are random.
With ones and zeros, a wrong epsilon, a forgotten offset or the decay of a bias would not show. Offsets are larger than
scales, so that most ReLUs are open: with offsets around zero, rounding grows so fast in deep networks with BatchNorm
that the losses of two correct frameworks have nothing in common after a few steps.

A model with dropout draws the units to drop from keys of the images (measure.models.dropout_draws). The keys are
computed here with Python's integers and share nothing with the frameworks' code, so that a mistake there is seen.
"""

from dataclasses import fields
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from howmanygpus.files import atomic_folder, write_json_atomic
from howmanygpus.gate.task_forms import GLOBAL_BATCH_SIZE, OWN, SGD, SGD_FORM, Variation, make_optimizer
from howmanygpus.measure.input.description import DESCRIPTION, image_name, read_description
from howmanygpus.measure.input.image_files import CHANNELS
from howmanygpus.measure.input.prepared import MISSING, SPLITS, PreparedData
from howmanygpus.measure.input.writing import write_data
from howmanygpus.measure.loop.schedule import count_steps_per_epoch, learning_rates
from howmanygpus.measure.models.dropout_draws import PRIME, factors_of_image
from howmanygpus.measure.models.initialization import draw_weights
from howmanygpus.measure.models.networks import list_draws
from howmanygpus.measure.models.saving import save_arrays
from howmanygpus.measure.spec import OptimizerSpec, RunSpec

NUM_TRAIN, NUM_TEST = 28, 14
"""An epoch has two steps and leaves four images over. The last batch of an evaluation has two images."""
EXTRA_PIXELS = (2, 3)
"""Pixels by which the images are higher and wider than the network's input."""
NUM_STEPS, EVAL_EVERY_EPOCHS = 6, 2
"""Three epochs, so that the images change their order twice and one evaluation is in the middle of training."""
OPTIMIZERS = {SGD: {"eval_devices": "all", "window_steps": 1}, OWN: {"eval_devices": "first", "window_steps": 2}}
"""The optimizers with which the task is done, each with settings whose values they share between them."""
WINDOWS = {1: ((1,), (2,), (3,), (4,), (5,), (6,)), 2: ((1,), (2,), (3, 4), (5, 6))}
"""Steps of each window by window_steps: one also ends with the first step and with each epoch."""
SCHEDULE_STRIDE = 7
"""The six steps have the learning rates of every seventh step of a longer run, up to its last.

A cosine then ends at 0.3 % of its peak. Epochs of 14 steps leave 0.75 and 1.25 epochs half a step, which is rounded.
"""
FIXED: dict[str, Any] = {
    "epochs": None,
    "steps": NUM_STEPS,
    "warmup_steps": 1,
    "eval_every_epochs": EVAL_EVERY_EPOCHS,
    "eval_batch_size": None,
    "random_flip": True,
    "random_crop_padding": 1,
    "normalization": "data",
    "prefetch": 2,
    "loss_scale": 2.0**10,
}
"""Settings of runs whose values the task chooses; see settings.py. Others have their defaults or are the cell's."""
RESIZED_CROP = {"area": (0.3, 1.0), "aspect": (0.75, 4 / 3)}
LARGE = 32 * 32 * 3
"""Number of values of an image above which several threads are faster. For smaller images they only wait for a busy
core."""
LOSS_SCALE, OVERFLOWING = FIXED["loss_scale"], 2.0**100
"""Loss scale in fp16 at which no gradient of the task overflows, and one at which all do.

In float32 none would overflow, so that a framework that computes in float32 does not skip the step.
"""
SKIPPED_STEP = 4
"""The step whose gradients overflow in fp16, on the last device only: all devices must skip it. Two steps follow."""
SKIPPED_PREFIX = "skipped/"
"""Prefix of the names of the reference's arrays if the step is skipped."""
NOISES = {"bf16": "noise", "fp16": "fine_noise"}
"""Prefixes of the names of arrays with the changes by reduced precision, by the simulated precision."""
FLOAT32 = "float32"
"""Prefix of the names of arrays with the changes by PyTorch's own float32."""
DRAWS, NORMS = "draws", "norms"
"""Prefixes of what is known of a user's model that draws random numbers in training: the changes by other draws, and
the norms of the whole gradient and of the whole updates with several draws."""
NOISE = ".noise.safetensors"
"""Suffix of the files with the changes by reduced precision."""
UNSUPPORTED = "unsupported.json"
"""File that says why a cell was not observed."""
WEIGHTS = "weights.safetensors"
CHANNEL_MEANS, CHANNEL_STDS = (127.0, 119.0, 135.0), (64.0, 58.0, 70.0)
"""Each channel has its own, so that one with the numbers of another shows. Further channels begin again."""
PRESENT, MAX_MISSING_FRAC = 0.4, 0.8
"""With any number of labels per image: fraction that an image has, and largest fraction that may be missing.

Devices then have clearly different numbers of known labels.
"""


def make_spec(framework: dict, cell: dict, size: dict, optimizer: str, folder: Path, defaults: dict) -> RunSpec:
    """Make a run's specification.

    framework: name, family, strategy, launcher. cell: see ParityCell.describe. size: the layout. defaults: defaults of
    the settings that the task does not choose, see study.gate_cells.list_gated_defaults.

    The crop of a cell is the size of its network's input.
    """
    given, variation = dict(cell), Variation.read(cell["variation"])
    height_and_width, more = tuple(given.pop("crop")), given.pop("more", {})
    own = more.get("optimizer", {}) if optimizer == OWN else {}
    form = variation.optimizer if optimizer == OWN else SGD_FORM
    crops: dict[str, Any] = {"crop": height_and_width, "random_resized_crop": None}
    if variation.resizes:
        crops = {"crop": None, "random_resized_crop": {"size": height_and_width, **RESIZED_CROP}}
    del given["variation"]
    values = (
        defaults
        | FIXED
        | {"study": "parity", "dataset": "parity", "variant": "base", "input": "arrays", "repeat": 1, "seed": 1}
        | size
        | crops
        | {
            **variation.share(size["num_gpus"]),
            **OPTIMIZERS[optimizer],
            "global_batch_size": GLOBAL_BATCH_SIZE,
            "label_smoothing": variation.label_smoothing,
            "frozen_batches": variation.frozen_batches,
            "loader_workers": 1,
            "model_options": {},
            "data_dir": str(folder / cell.get("input", "arrays")),
            "weights_file": str(folder / WEIGHTS),
            "model_file": None,
            "model_folder": None,
        }
        | framework
        | given
        | {**more, "optimizer": defaults["optimizer"] | make_optimizer(form) | own}
    )
    check_complete(values)
    return RunSpec.from_dict(values)


def check_complete(values: dict) -> None:
    """Raise ValueError if the task has no value for a setting whose values it is declared to choose."""
    lacking = [field.name for field in fields(RunSpec) if field.name not in values]
    lacking += [f"optimizer.{field.name}" for field in fields(OptimizerSpec) if field.name not in values["optimizer"]]
    if lacking:
        remedy = "add one to FIXED in gate/task.py, or below `optimizer` to VALUES in gate/task_forms.py"
        raise ValueError(f"the gate's task has no value for {', '.join(lacking)}; {remedy}")


def compute_rates(spec: RunSpec) -> np.ndarray:
    """Return the learning rate of each step of the task, float32, by the code of runs. See SCHEDULE_STRIDE."""
    longer = RunSpec.from_dict(spec.to_dict() | {"steps": SCHEDULE_STRIDE * NUM_STEPS})
    steps_per_epoch = SCHEDULE_STRIDE * count_steps_per_epoch(NUM_TRAIN, spec.global_batch_size)
    return learning_rates(longer, steps_per_epoch)[SCHEDULE_STRIDE - 1 :: SCHEDULE_STRIDE]


def has_noise(spec: RunSpec) -> bool:
    """Whether limits need the file with the changes by reduced precision. For a user's file the reference has them."""
    return spec.precision != "fp32" and spec.model_file is None


def has_skipped_step(spec: RunSpec) -> bool:
    """Whether gradients overflow in one step of the task. The reference of a user's own model has no such step."""
    return spec.precision == "fp16" and spec.model_file is None


def draw_task_weights(
    model: str, image_shape: tuple[int, int, int], num_classes: int, **options: Any
) -> dict[str, np.ndarray]:
    weights = draw_weights(list_draws(model, image_shape, num_classes, **options), seed=1)
    generator = np.random.default_rng(2)
    low_and_high = {".scale": (0.2, 0.35), ".offset": (0.3, 0.6), ".variance": (0.02, 1.0)}
    low_and_high |= dict.fromkeys((".bias", ".mean", ".token"), (-0.3, 0.3))
    for name, array in weights.items():
        for role, (low, high) in low_and_high.items():
            if name.endswith(role):
                weights[name] = generator.uniform(low, high, array.shape).astype(np.float32)
    return weights


def draw_data(
    image_shape: tuple[int, int, int], num_classes: int, seed: int, multi_label: bool = False
) -> PreparedData:
    """Draw the task's images, as they are stored. image_shape: height, width and channels of the network's input."""
    generator = np.random.default_rng(seed)
    arrays: dict[str, Any] = {}
    shape = (image_shape[0] + EXTRA_PIXELS[0], image_shape[1] + EXTRA_PIXELS[1], image_shape[2])
    for split, count in (("train", NUM_TRAIN), ("test", NUM_TEST)):
        arrays[f"{split}_images"] = generator.integers(0, 256, (count, *shape), dtype=np.uint8)
        draw = draw_labels if multi_label else draw_classes
        arrays[f"{split}_labels"] = draw(generator, count, num_classes)
    channels = image_shape[2]
    return PreparedData(
        **arrays,
        num_classes=num_classes,
        channel_mean=tuple(islice(cycle(CHANNEL_MEANS), channels)),
        channel_std=tuple(islice(cycle(CHANNEL_STDS), channels)),
    )


def draw_classes(generator: np.random.Generator, count: int, num_classes: int) -> np.ndarray:
    return generator.integers(0, num_classes, count).astype(np.int32)


def draw_labels(generator: np.random.Generator, count: int, num_classes: int) -> np.ndarray:
    """Return labels of images with any number of them, uint8 (count, num_classes), some of them missing."""
    present = generator.random((count, num_classes)) < PRESENT
    is_missing = generator.random((count, num_classes)) < generator.random((count, 1)) * MAX_MISSING_FRAC
    return np.where(is_missing, MISSING, present).astype(np.uint8)


def write_task(folder: Path, data: PreparedData, weights: dict[str, np.ndarray]) -> None:
    """Write the task's data, as arrays and as files, and its weights. The verdicts in `folder` are kept."""
    write_data(folder / "arrays", data)
    if data.image_shape[2] in CHANNELS:
        write_files(folder / "png", data, read_description(folder / "arrays"))
    save_arrays(weights, folder / WEIGHTS)


def write_files(folder: Path, data: PreparedData, description: dict) -> None:
    """Write every image as a PNG file, for the cells of native loaders, with the description beside them."""
    with atomic_folder(folder) as partial:
        for split in SPLITS:
            np.save(partial / f"{split}_labels.npy", getattr(data, f"{split}_labels"))
            for index, image in enumerate(getattr(data, f"{split}_images")):
                path = partial / image_name(split, index, "png")
                path.parent.mkdir(parents=True, exist_ok=True)
                # OpenCV writes the channels in the order blue, green, red.
                cv2.imwrite(str(path), np.ascontiguousarray(image[..., ::-1]))
        write_json_atomic(partial / DESCRIPTION, description | {"form": "png"})


def compute_key(image: np.ndarray, seed: int, step: int) -> list[int]:
    """Return the words of an image's key. image: uint8 (height, width, channels); step: counts from 1."""
    pixels = image.astype(int)
    sums = [1, *pixels.sum(axis=(1, 2)).tolist(), *pixels.sum(axis=0).ravel().tolist()]
    rows = factors_of_image(seed, image.shape).tolist()
    contents = [sum(one * factor for one, factor in zip(sums, row, strict=True)) for row in rows]
    return [pow(content + step - 1, 3, PRIME) for content in contents]


def compute_keys(network: Any, images: np.ndarray, step: int) -> list[np.ndarray]:
    """Return the network's arguments besides the images: their keys, or none if the network has no dropout."""
    if not hasattr(network, "image_keys"):
        return []
    return [np.array([compute_key(image, network.image_keys.seed, step) for image in images])]
