"""Small run specifications and data for tests of the measured side."""

import numpy as np

from howmanygpus.measure.input.prepared import PreparedData
from howmanygpus.measure.spec import RunSpec
from howmanygpus.settings import list_defaults

DEFAULTS = list_defaults()
OPTIMIZER = DEFAULTS["optimizer"] | {"lr_scaling": "none"}


def make_spec(optimizer=None, **changes) -> RunSpec:
    """A run on one device with 8 images per step, changed by keywords. global_batch_size sets the per-device batch."""
    values = {
        **DEFAULTS,
        "study": "s",
        "dataset": "d",
        "model": "small_cnn",
        "model_options": {},
        "framework": "pytorch_ddp",
        "variant": "base",
        "input": "arrays",
        "precision": "fp32",
        "device": "cpu",
        "device_kind": "cpu",
        "num_nodes": 1,
        "num_gpus": 1,
        "global_batch_size": 8,
        "repeat": 1,
        "seed": 1,
        "family": "torch",
        "strategy": "ddp",
        "launcher": "per_device",
        "cores_per_device": 1,
        "data_dir": "",
        "weights_file": "",
        "model_file": None,
        "model_folder": None,
        "epochs": 1,
        "warmup_steps": 1,
        "normalization": "data",
        "prefetch": 0,
        "loader_kind": "threads",
        "optimizer": OPTIMIZER | (optimizer or {}),
        **changes,
    }
    values["per_device_batch_size"] = values["global_batch_size"] // values["num_gpus"] // values["accumulate"]
    return RunSpec.from_dict(values)


def make_data(num_train=40, num_test=13, image_shape=(6, 6, 1), num_classes=10, seed=0) -> PreparedData:
    random = np.random.default_rng(seed)
    return PreparedData(
        train_images=random.integers(0, 256, (num_train, *image_shape), dtype=np.uint8),
        train_labels=random.integers(0, num_classes, num_train).astype(np.int32),
        test_images=random.integers(0, 256, (num_test, *image_shape), dtype=np.uint8),
        test_labels=random.integers(0, num_classes, num_test).astype(np.int32),
        num_classes=num_classes,
        channel_mean=(127.0,) * image_shape[2],
        channel_std=(64.0,) * image_shape[2],
    )
