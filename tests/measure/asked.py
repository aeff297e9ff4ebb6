"""The runs that the tests of this folder look at, by what one start of a framework does."""

from howmanygpus.registry import FRAMEWORKS
from measure.launching import BACKENDS, BY_MPI

ON_TWO = [framework for framework in BACKENDS if FRAMEWORKS[framework].max_devices.get("cpu", 2) >= 2]
EXCHANGING = [framework for framework in ON_TWO if "fp32" not in FRAMEWORKS[framework].keeps_exchange]
"""The frameworks that can leave the exchange of gradients out."""
LARGEST = [(framework, 2 if framework in ON_TWO else 1) for framework in BACKENDS]
"""Each framework, with two devices if it supports them on CPUs, else with one."""

OPTIMIZERS = {
    "sgd": {
        "learning_rate": 0.05,
        "momentum": 0.9,
        "weight_decay": 1e-3,
        "lr_warmup_epochs": 1,
        "lr_schedule": "cosine",
    },
    "adam": {"name": "adam", "learning_rate": 0.01, "weight_decay": 1e-3, "epsilon": 1e-3},
}
SMALL_DATA = {"num_train": 25, "num_test": 13}
CHANGED_IMAGES = {"random_flip": True, "random_crop_padding": 1}


def two_epochs(optimizer: str, **changes) -> dict:
    """Return the settings of two epochs of three steps each. The remaining training images do not fill a batch.

    With other images, an input of a ReLU may be so near to zero that rounding decides; the difference is then 5e-3.
    """
    request = {"optimizer": OPTIMIZERS[optimizer], "epochs": 2, "data": SMALL_DATA}
    return request | CHANGED_IMAGES | changes


AHEAD = two_epochs("sgd", prefetch=2, eval_devices="first", eval_batch_size=5, horovod_controller="gloo")
"""This run has a start of its own by the launcher, as users' runs have."""
IN_SMALL_BATCHES = two_epochs("adam", eval_batch_size=3)
"""This batch size leaves the last device without an image in the last batches."""
RESIDENT = two_epochs("sgd", input="resident", prefetch=2)
BY_RUNNING = {
    **{"model": "resnet44", "model_options": {"blocks": 1, "width": 4}, "data": SMALL_DATA, "eval_batch_size": 4},
    **{"optimizer": {"learning_rate": 1e-7}, "epochs": None, "steps": 2},
}
BY_BATCH = BY_RUNNING | {"eval_batchnorm": "batch"}
"""These runs train too little to tell, so that device counts and frameworks evaluate the same weights."""
WITHOUT_FLIP = two_epochs("sgd", random_flip=False)
DIVERGING = {"optimizer": {"learning_rate": 1e20}, "epochs": 3}

SETTINGS = {
    "sgd": {
        **{"learning_rate": 0.05, "weight_decay": 0.5, "weight_decay_on": "weights"},
        **{"lr_schedule": "step", "lr_step_epochs": [1, 2], "lr_step_factor": 0.3},
    },
    "adamw": {
        **{"name": "adamw", "learning_rate": 0.003, "epsilon": 1e-3, "weight_decay": 6.0, "weight_decay_on": "weights"},
        **{"lr_schedule": "linear", "lr_warmup_epochs": 1},
    },
}
"""With larger rates of adamw, rounding decides at some input of a ReLU; differences are then up to 5e-2."""
ACCUMULATE = {"sgd": 1, "adamw": 2}
"""Batches for one step. The network has no BatchNorm, so that half a batch twice is the same as a whole one."""
LEARNING = {
    name: {"epochs": 3, "data": SMALL_DATA, **CHANGED_IMAGES, "optimizer": optimizer, "accumulate": ACCUMULATE[name]}
    for name, optimizer in SETTINGS.items()
}

PLAIN_SGD = {"learning_rate": 1.0, "momentum": 0.0}
"""After one step with these settings the update is the gradient."""
SLOW_SGD = PLAIN_SGD | {"learning_rate": 0.01}
NOT_COMPRESSED_AT_FIRST = 2
"""The number of steps that powersgd leaves uncompressed."""
RANKS = (1, 4)
ONE_STEP = {"optimizer": PLAIN_SGD, "epochs": None, "steps": 1, **CHANGED_IMAGES}
NORMALIZED = {name: ONE_STEP | {"normalization": name} for name in ("data", "symmetric")}
UNCOMPRESSED = {
    "fp16": ONE_STEP,
    "powersgd": {
        **{"optimizer": SLOW_SGD, "epochs": None, "steps": NOT_COMPRESSED_AT_FIRST + 1},
        **CHANGED_IMAGES,
    },
}
"""Runs of one device, which has nothing to compress."""
ALONE = ONE_STEP | {"exchange": "none", "evaluate": False}
"""Each of two replicas takes a step on its half of the batch of ONE_STEP."""
COMPRESSING = [(name, how) for name, entry in FRAMEWORKS.items() for how in entry.compressions]


def compress(compression: str, powersgd_rank: int = 4) -> dict:
    return UNCOMPRESSED[compression] | {"gradient_compression": compression, "powersgd_rank": powersgd_rank}


def list_in_turn(framework: str, num_gpus: int) -> list[dict]:
    """Return what one start of a framework does on so many devices. The run that diverges must not change the others.

    The references of the tests are the runs of the first framework on one device.
    """
    asked: list[dict] = []
    if (framework, num_gpus) in LARGEST:
        asked += [DIVERGING, IN_SMALL_BATCHES, RESIDENT, BY_BATCH, *LEARNING.values()]
        asked += [ALONE] if framework in EXCHANGING else []
        for compression in FRAMEWORKS[framework].compressions:
            ranks = RANKS if compression == "powersgd" else RANKS[-1:]
            asked += [compress(compression, rank) for rank in ranks]
    if (framework, num_gpus) == (BACKENDS[0], 1):
        asked += [two_epochs(optimizer) for optimizer in OPTIMIZERS]
        asked += [WITHOUT_FLIP, RESIDENT, BY_RUNNING, BY_BATCH, *UNCOMPRESSED.values(), *NORMALIZED.values()]
    return asked


def complete(framework: str, num_gpus: int, request: dict) -> dict:
    return {"num_gpus": num_gpus, "global_batch_size": 8, **BY_MPI, **request}
