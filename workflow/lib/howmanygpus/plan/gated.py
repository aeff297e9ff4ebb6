"""
How the parity gate checks each setting of a run.

A setting belongs to the gate's cell unless it is listed here: then a run with another value needs a verdict of its own,
whose task is done with that value. A new setting that changes the work is therefore compared with the reference, and
fails until the reference has it too.
"""

from functools import cache
from typing import Any

from howmanygpus.plan.config.learning import BY_FRAMEWORK
from howmanygpus.plan.config.schema import study_defaults
from howmanygpus.plan.runs import EVAL_BATCHNORM, TRAINING_KEYS
from howmanygpus.train.parity.optimizers import FORMED_BY, TASKS_KEYS

FIXED = {
    "epochs": "six steps over three epochs",
    "steps": "six steps over three epochs",
    "warmup_steps": "one step; the shared loop counts them",
    "window_steps": "a window for every step",
    "eval_every_epochs": "evaluations in the middle of training and after it",
    "eval_batch_size": "a full batch and a short last one",
    "eval_devices": "all devices with one optimizer, the first one with the other",
    "normalization": "each channel has its own mean and deviation",
    "random_flip": "on; the bytes of each batch are compared",
    "random_crop_padding": "on; the bytes of each batch are compared",
    "crop": "on; the bytes of each batch are compared, and evaluation takes the centre",
    "prefetch": "two batches ahead",
    "loss_scale": "a scale at which nothing overflows, and one step at which all gradients of one device do",
}
"""Settings whose values the task chooses, and how."""
NEUTRAL = {
    "init": "every framework reads the weights from one file, and the gate compares what it has read",
    "gradient_noise_every_epochs": "it is measured between windows, without an update",
    "loader_workers": "which images form a batch, and how each is changed, is drawn for each image by its number",
    "random_resized_crop": (
        "the shared loader resizes before any framework sees the images; native loaders have a cell of their own"
    ),
    EVAL_BATCHNORM: "only unfair protocols set it, whose runs are in no ranking; their training is the cell's",
}
"""Settings that cannot change the mathematics of a framework's training, and why."""
VALUE, WHETHER_ANY = "its value", "whether there is any; the task chooses the number"
NAMED = {
    "batchnorm": VALUE,
    "tier": VALUE,
    "loader": "its value, and whether a native one resizes",
    "loader_kind": VALUE,
    "loss_on_every_device": VALUE,
    "gradient_compression": VALUE,
    "powersgd_rank": "its value, with PowerSGD",
    "horovod_controller": VALUE,
    "accumulate": "whether batches are accumulated; the task takes two",
    "label_smoothing": VALUE,
    "optimizer": "its form, see below",
}
"""Settings that the cell's own fields hold, and how. The cell has the value of all settings that are in no list."""
WITHOUT_NUMBER = ("momentum", "weight_decay", "lr_reference_batch_size", "lr_warmup_epochs")
"""Keys of the optimizer of which its form only says whether there is a number."""


@cache
def list_defaults() -> dict[str, Any]:
    """Return the default of every setting of a run, from which the gate's tasks are made."""
    defaults = study_defaults()
    optimizer = {key: value for key, value in defaults["optimizer"].items() if key != BY_FRAMEWORK}
    return {key: defaults[key] for key in TRAINING_KEYS} | {EVAL_BATCHNORM: "running", "optimizer": optimizer}


def find_more(settings: dict[str, Any]) -> dict[str, Any]:
    """Return what a cell has besides its own fields: settings of neither list that differ from their default.

    settings: complete ones of a run. Keys of the optimizer that neither form it nor have numbers of the task are below
    `optimizer`.
    """
    defaults = list_defaults()
    known = FIXED | NEUTRAL | NAMED
    more = {key: settings[key] for key in TRAINING_KEYS if key not in known and settings[key] != defaults[key]}
    given, usual = settings["optimizer"], defaults["optimizer"]
    own = {key: given[key] for key in usual if key not in (*FORMED_BY, *TASKS_KEYS) and given[key] != usual[key]}
    return more | ({"optimizer": own} if own else {})


def describe_gating() -> list[tuple[str, str, str]]:
    """Return (setting, how the gate checks it, in what way or why not) of every setting of a run."""
    rows = []
    for key in (*TRAINING_KEYS, EVAL_BATCHNORM):
        if key == "optimizer":
            continue
        if key in FIXED:
            rows.append((key, "task", FIXED[key]))
        elif key in NEUTRAL:
            rows.append((key, "not checked", NEUTRAL[key]))
        else:
            rows.append((key, "cell", NAMED.get(key, VALUE)))
    for key in list_defaults()["optimizer"]:
        name = f"optimizer.{key}"
        if key in TASKS_KEYS and key not in FORMED_BY:
            rows.append((name, "task", "a number that shows in six steps and is no framework's default"))
        else:
            rows.append((name, "cell", WHETHER_ANY if key in WITHOUT_NUMBER else VALUE))
    return rows
