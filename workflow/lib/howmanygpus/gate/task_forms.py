"""
Differences between the gate's tasks of one network: the loss, how batches are taken, and the runs' optimizer.

A task has two optimizers: one sgd for all verdicts, and the optimizer of the runs that the verdict covers. The form of
the runs' optimizer is everything in it that selects other code: its rule, whether there is momentum, decay, scaling and
warm-up, and the schedule. The task replaces all other numbers by numbers that show in six steps, differ from the
defaults of the frameworks, and keep rounding from growing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

SGD, OWN = "sgd", "own"
"""Names of the two optimizers: the one of every task, and the one of the runs."""
SGD_FORM = "sgd-momentum-decay-cosine-linearscaled-warmup"
RULES, SCHEDULES, SCALINGS = ("sgd", "adam", "adamw"), ("constant", "step", "cosine", "linear"), ("linear", "sqrt")
MOMENTUM, DECAY, DECAY_OF_WEIGHTS, PER_DEVICE, WARMUP = "momentum", "decay", "decayweights", "perdevice", "warmup"
LEARNING_RATES = {"sgd": 0.0005, "adam": 0.00005, "adamw": 0.00005}
WEIGHT_DECAYS = {"sgd": 0.1, "adam": 0.1, "adamw": 1.0}
"""They make the decay as large as the gradients of offsets and biases for sgd and adam, and as an update for adamw."""
VALUES: dict[str, Any] = {"momentum": 0.85, "beta1": 0.8, "beta2": 0.99, "epsilon": 1e-3, "lr_step_factor": 0.5}
"""The large epsilon shows its position in adam's formula."""
STEP_EPOCHS, WARMUP_EPOCHS = [1.25, 2.0], 0.75
"""Neither 1.25 nor 0.75 epochs of the task are whole numbers of steps, so that their rounding shows."""
REFERENCE_BATCH_SIZE = 6
"""Half of the task's global batch."""


def name_form(optimizer: Mapping[str, Any]) -> str:
    """Return the form of a run's optimizer as text, for example `adamw-decayweights-step-sqrtscaled-perdevice`."""
    words = [optimizer["name"]]
    if optimizer["name"] == "sgd" and optimizer["momentum"]:
        words.append(MOMENTUM)
    if optimizer["weight_decay"]:
        words.append(DECAY if optimizer["weight_decay_on"] == "all" else DECAY_OF_WEIGHTS)
    words.append(optimizer["lr_schedule"])
    if optimizer["lr_scaling"] != "none":
        words.append(f"{optimizer['lr_scaling']}scaled")
        words += [] if optimizer["lr_reference_batch_size"] else [PER_DEVICE]
    return "-".join([*words, *([WARMUP] if optimizer["lr_warmup_epochs"] else [])])


def make_optimizer(form: str) -> dict[str, Any]:
    """Return the optimizer of the task that has a form, with the keys of OptimizerSpec."""
    name, *words = form.split("-")
    schedule = next(word for word in words if word in SCHEDULES)
    scaling = next((scaling for scaling in SCALINGS if f"{scaling}scaled" in words), "none")
    return VALUES | {
        "name": name,
        "learning_rate": LEARNING_RATES[name],
        "momentum": VALUES["momentum"] if MOMENTUM in words else 0.0,
        "weight_decay": WEIGHT_DECAYS[name] if {DECAY, DECAY_OF_WEIGHTS} & {*words} else 0.0,
        "weight_decay_on": "weights" if DECAY_OF_WEIGHTS in words else "all",
        "lr_scaling": scaling,
        "lr_reference_batch_size": None if PER_DEVICE in words else REFERENCE_BATCH_SIZE,
        "lr_warmup_epochs": WARMUP_EPOCHS if WARMUP in words else 0.0,
        "lr_schedule": schedule,
        "lr_step_epochs": STEP_EPOCHS if schedule == "step" else [],
    }


GLOBAL_BATCH_SIZE = 12
"""One, two and three devices divide it."""
PART = 2
"""Images in each batch of a step that accumulates. One device takes six batches, two take three, and three take two."""
MULTI_LABEL, SMOOTHING, ACCUMULATES, RESIZES = "multilabel", "smoothing", "accumulated", "resized"
FROZEN = "frozen"


@dataclass(frozen=True)
class Variation:
    """A variation of the task; as text, it is the end of the name of the task's folder.

    multi_label: an image has any number of labels, not one. accumulates: a step takes several batches of PART images of
    each device. resizes: training images are random parts of the stored ones, resized. frozen_batches: every epoch has
    the batches of the first one. optimizer: form of the runs' optimizer (gate.task_forms).
    """

    multi_label: bool = False
    label_smoothing: float = 0.0
    accumulates: bool = False
    resizes: bool = False
    frozen_batches: bool = False
    optimizer: str = SGD_FORM

    def __str__(self) -> str:
        words = [MULTI_LABEL] if self.multi_label else []
        words += [f"{SMOOTHING}{self.label_smoothing:g}"] if self.label_smoothing else []
        words += [ACCUMULATES] if self.accumulates else []
        words += [RESIZES] if self.resizes else []
        words += [FROZEN] if self.frozen_batches else []
        return "".join(f"_{word}" for word in [*words, self.optimizer])

    @classmethod
    def read(cls, text: str) -> "Variation":
        """Read a variation from its text."""
        *words, optimizer = text.removeprefix("_").split("_")
        smoothing = [float(word.removeprefix(SMOOTHING)) for word in words if word.startswith(SMOOTHING)]
        return cls(
            multi_label=MULTI_LABEL in words,
            label_smoothing=smoothing[0] if smoothing else 0.0,
            accumulates=ACCUMULATES in words,
            resizes=RESIZES in words,
            frozen_batches=FROZEN in words,
            optimizer=optimizer,
        )

    def share(self, num_devices: int) -> dict[str, int]:
        """Return the settings that divide the global batch among devices, and their shares into batches of a step."""
        share = GLOBAL_BATCH_SIZE // num_devices
        size = PART if self.accumulates else share
        return {"accumulate": share // size, "per_device_batch_size": size}
