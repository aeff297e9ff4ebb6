"""
Define the task that every framework does before anything is timed: fixed images, weights and five optimizer steps.

The weights are the canonical initial weights, except that BatchNorm's parameters and statistics are random. With ones
and zeros, a wrong epsilon or a forgotten offset would not show.
"""

import importlib
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from howmanygpus.train.input.prepared import PreparedData
from howmanygpus.train.input.writing import write_data
from howmanygpus.train.models.initialization import draw_weights
from howmanygpus.train.spec import RunSpec

GLOBAL_BATCH_SIZE = 8
NUM_TRAIN, NUM_TEST = 20, 8
"""An epoch has two steps and leaves some images over, so that five steps use three orders of the images."""
RATES = np.array([0.004, 0.002, 0.001, 0.003, 0.002], np.float32)
"""The rates change, because momentum rules differ in how they treat that. Small rates keep rounding from growing."""
OPTIMIZERS: dict[str, dict[str, Any]] = {
    "sgd": {"name": "sgd", "momentum": 0.9, "weight_decay": 1e-3, "scale": 1.0},
    "adam": {"name": "adam", "momentum": 0.0, "weight_decay": 1e-3, "scale": 0.1},
}
"""scale: a factor on the rates. Adam's epsilon is large enough to show its position in the formula."""
COMMON_OPTIMIZER = {
    **{"learning_rate": 0.01, "beta1": 0.9, "beta2": 0.99, "epsilon": 1e-3, "lr_scaling": "none"},
    **{"lr_reference_batch_size": None, "lr_warmup_epochs": 0, "lr_schedule": "constant"},
}
UNSUPPORTED, CRASHED = "unsupported.json", "crashed.json"
"""Files that say why a cell was not observed."""
CHANNEL_MEAN, CHANNEL_STD = 127.0, 64.0


def rates_of(optimizer: str) -> np.ndarray:
    """Return the learning rate of each of the five steps."""
    return RATES * np.float32(OPTIMIZERS[optimizer]["scale"])


def make_spec(framework: dict, cell: dict, size: dict, optimizer: str, folder: Path) -> RunSpec:
    """Make a run's specification. framework: name, family, strategy, launcher; cell: see ParityCell; size: layout."""
    return RunSpec.from_dict(
        {
            **{"study": "parity", "dataset": "parity", "variant": "base", "input": "arrays", "repeat": 1, "seed": 1},
            **{**size, "global_batch_size": GLOBAL_BATCH_SIZE},
            **{"per_device_batch_size": GLOBAL_BATCH_SIZE // size["num_gpus"], "epochs": None, "steps": len(RATES)},
            **{"warmup_steps": 1, "window_steps": 1, "eval_every_epochs": 1, "prefetch": 2},
            **{"eval_batch_size": None, "eval_devices": "all"},
            **{"loader": "shared", "loader_workers": 1, "loader_kind": "threads"},
            **{"random_flip": True, "random_crop_padding": 1, "tier": "stock"},
            **{"gradient_compression": "none", "powersgd_rank": 1, "horovod_controller": "gloo"},
            **{"data_dir": str(folder / "data"), "weights_file": str(folder / "weights.safetensors")},
            **framework,
            **cell,
            "optimizer": {key: value for key, value in OPTIMIZERS[optimizer].items() if key != "scale"}
            | COMMON_OPTIMIZER,
        }
    )


def draw_task_weights(model: str, image_shape: tuple[int, int, int], num_classes: int) -> dict[str, np.ndarray]:
    parameters = importlib.import_module(f"howmanygpus.train.models.{model}.parameters").parameters
    weights = draw_weights(parameters(image_shape, num_classes), seed=1)
    generator = np.random.default_rng(2)
    low_and_high = {".scale": (0.7, 1.3), ".offset": (-0.3, 0.3), ".mean": (-0.3, 0.3), ".variance": (0.02, 1.0)}
    for name, array in weights.items():
        for role, (low, high) in low_and_high.items():
            if name.endswith(role):
                weights[name] = generator.uniform(low, high, array.shape).astype(np.float32)
    return weights


def draw_data(image_shape: tuple[int, int, int], num_classes: int, seed: int) -> PreparedData:
    generator = np.random.default_rng(seed)
    arrays = {}
    for split, count in (("train", NUM_TRAIN), ("test", NUM_TEST)):
        arrays[f"{split}_images"] = generator.integers(0, 256, (count, *image_shape), dtype=np.uint8)
        arrays[f"{split}_labels"] = generator.integers(0, num_classes, count).astype(np.int32)
    channels = image_shape[2]
    return PreparedData(
        **arrays,
        num_classes=num_classes,
        channel_mean=(CHANNEL_MEAN,) * channels,
        channel_std=(CHANNEL_STD,) * channels,
    )


def write_task(folder: Path, data: PreparedData, weights: dict[str, np.ndarray]) -> None:
    """Write the task's data and weights into `folder`. The verdicts that are in the folder too are kept."""
    write_data(folder / "data", data)
    save_file(weights, folder / "weights.safetensors")
