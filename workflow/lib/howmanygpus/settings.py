"""
Declares every setting of a run: each key of a study that changes what a run does.

The planner reads this table alone. The schema of the config, the reference in config/README.md, the settings that a
variant may override, the gate's cells, the searches for the largest batch and the comparison of losses follow from it.
The code that a run executes reads none of it, so that no text in it reruns anything: a run gets its complete
specification, whose typed form (measure/spec.py) is compared with the table when anything is planned.
"""

from dataclasses import dataclass
from typing import Any

CELL, TASK, NONE = "cell", "task", "not checked"


@dataclass(frozen=True)
class Gate:
    """How the parity gate covers a setting.

    by: CELL, if runs with another value need a verdict of their own; TASK, if the gate's task (gate/task.py)
    chooses values that cover all others; NONE, if the setting cannot change the mathematics. how: in what way, or why
    not, in words for docs/parity.md.
    """

    by: str
    how: str


def in_cell(how: str = "its value") -> Gate:
    return Gate(CELL, how)


def by_task(how: str) -> Gate:
    return Gate(TASK, how)


def not_gated(why: str) -> Gate:
    return Gate(NONE, why)


@dataclass(frozen=True)
class Setting:
    """A setting of a run. `gate`, `memory` and `work` have no default, so that each setting is decided upon.

    default: what a study without the key has; it must be what runs did before there was the key. accepts: rule of JSON
    Schema. doc: for the reference. memory: whether the memory of a batch can depend on it, other than by the shape of
    the network's input. work: whether it changes the work; False if it only says how the work is done, so that the
    losses of runs with other values are compared. variant: whether a variant may override it. study: whether a study
    may set it; otherwise only an unfair protocol or a control run does.
    """

    default: Any
    accepts: dict[str, Any]
    doc: str
    gate: Gate
    memory: bool
    work: bool
    variant: bool = True
    study: bool = True

    @property
    def rule(self) -> dict[str, Any]:
        """The rule of JSON Schema for the key, with what the reference says of it."""
        return {"description": self.doc, **self.accepts, "default": self.default}


WHETHER_ANY = "whether there is any; the task chooses the number"
NUMBER = "a number that shows in six steps and is no framework's default"

OPTIMIZER: dict[str, Setting] = {
    "name": Setting(
        default="sgd",
        accepts={"enum": ["sgd", "adam", "adamw"]},
        doc="`sgd` with momentum, `adam`, or `adamw`: adam with decoupled weight decay (Loshchilov & Hutter 2019).",
        gate=in_cell(),
        memory=True,
        work=True,
    ),
    "learning_rate": Setting(
        default=0.1,
        accepts={"type": "number", "exclusiveMinimum": 0},
        doc="For the reference batch, before scaling.",
        gate=by_task(NUMBER),
        memory=False,
        work=True,
    ),
    "momentum": Setting(
        default=0.9,
        accepts={"type": "number", "minimum": 0, "exclusiveMaximum": 1},
        doc="Momentum of sgd.",
        gate=in_cell(WHETHER_ANY),
        memory=True,
        work=True,
    ),
    "beta1": Setting(
        default=0.9,
        accepts={"type": "number", "minimum": 0, "exclusiveMaximum": 1},
        doc="Decay rate of adam's and adamw's first moment.",
        gate=by_task(NUMBER),
        memory=False,
        work=True,
    ),
    "beta2": Setting(
        default=0.999,
        accepts={"type": "number", "minimum": 0, "exclusiveMaximum": 1},
        doc="Decay rate of adam's and adamw's second moment.",
        gate=by_task(NUMBER),
        memory=False,
        work=True,
    ),
    "epsilon": Setting(
        default=1e-08,
        accepts={"type": "number", "exclusiveMinimum": 0},
        doc="Added by adam and adamw to the square root of the bias-corrected second moment.",
        gate=by_task(NUMBER),
        memory=False,
        work=True,
    ),
    "weight_decay": Setting(
        default=0,
        accepts={"type": "number", "minimum": 0},
        doc=(
            "`sgd` and `adam` add weight_decay times the parameter to its gradient (L2). `adamw` multiplies the "
            "parameter by 1 - learning rate * weight_decay before each update."
        ),
        gate=in_cell(WHETHER_ANY),
        memory=True,
        work=True,
    ),
    "weight_decay_on": Setting(
        default="all",
        accepts={"enum": ["all", "weights"]},
        doc="Parameters that decay. `weights` leaves out biases, and scales and offsets of normalisation layers.",
        gate=in_cell(),
        memory=True,
        work=True,
    ),
    "lr_scaling": Setting(
        default="linear",
        accepts={"enum": ["none", "linear", "sqrt"]},
        doc="Growth of the learning rate with the global batch. For adam, linear scaling is an assumption.",
        gate=in_cell(),
        memory=False,
        work=True,
    ),
    "lr_reference_batch_size": Setting(
        default=None,
        accepts={"type": ["integer", "null"], "minimum": 1},
        doc="Global batch for which learning_rate is meant. null: the batch of one device.",
        gate=in_cell(WHETHER_ANY),
        memory=False,
        work=True,
    ),
    "lr_warmup_epochs": Setting(
        default=0,
        accepts={"type": "number", "minimum": 0},
        doc="Epochs over which the learning rate rises linearly to its scaled value.",
        gate=in_cell(WHETHER_ANY),
        memory=False,
        work=True,
    ),
    "lr_schedule": Setting(
        default="constant",
        accepts={"enum": ["constant", "step", "cosine", "linear"]},
        doc=(
            "After the warm-up. `step` multiplies the rate by lr_step_factor at each of lr_step_epochs; `cosine` and "
            "`linear` fall to zero at the end of the run."
        ),
        gate=in_cell(),
        memory=False,
        work=True,
    ),
    "lr_step_epochs": Setting(
        default=[],
        accepts={"type": "array", "items": {"type": "number", "exclusiveMinimum": 0}, "uniqueItems": True},
        doc="Epochs after which `step` lowers the rate, in rising order, such as [30, 60, 80].",
        gate=by_task(NUMBER),
        memory=False,
        work=True,
    ),
    "lr_step_factor": Setting(
        default=0.1,
        accepts={"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
        doc="Factor of `step`.",
        gate=by_task(NUMBER),
        memory=False,
        work=True,
    ),
}
"""Keys of the setting `optimizer`."""

BY_FRAMEWORK = "by_framework"
PER_FRAMEWORK_KEYS = ("learning_rate", "lr_scaling", "lr_reference_batch_size", "lr_warmup_epochs")
"""Keys of the optimizer that a study can set for single frameworks."""

SETTINGS: dict[str, Setting] = {
    "epochs": Setting(
        default=None,
        accepts={"type": ["integer", "null"], "minimum": 1},
        doc="Passes over the training images. Give this or `steps`.",
        gate=by_task("six steps over three epochs"),
        memory=False,
        work=True,
        variant=False,
    ),
    "steps": Setting(
        default=None,
        accepts={"type": ["integer", "null"], "minimum": 1},
        doc="Optimizer updates. Give this or `epochs`.",
        gate=by_task("six steps over three epochs"),
        memory=False,
        work=True,
        variant=False,
    ),
    "accumulate": Setting(
        default=1,
        accepts={"type": "integer", "minimum": 1},
        doc=(
            "Batches of per_device_batch_size images that a device takes for one optimizer step; devices exchange "
            "the sum of their gradients once. Under strong scaling this is the number at the smallest device count; "
            "with more devices, each takes the fewest batches of at most per_device_batch_size images."
        ),
        gate=in_cell("whether batches are accumulated; the task takes batches of two images"),
        memory=True,
        work=True,
        variant=False,
    ),
    "warmup_steps": Setting(
        default=10,
        accepts={"type": "integer", "minimum": 1},
        doc="First steps, which are in no rate. The very first one is also reported as compile_s.",
        gate=by_task("one step; the shared loop counts them"),
        memory=False,
        work=True,
    ),
    "window_steps": Setting(
        default=50,
        accepts={"type": "integer", "minimum": 1},
        doc="Steps between two synchronisations of the devices. A window also ends with each epoch.",
        gate=by_task("a window for every step with one optimizer, windows of two steps with the other"),
        memory=False,
        work=True,
    ),
    "eval_every_epochs": Setting(
        default=1,
        accepts={"type": "integer", "minimum": 1},
        doc="Epochs between two evaluations of the whole test split. The last epoch is always evaluated.",
        gate=by_task("evaluations in the middle of training and after it"),
        memory=False,
        work=False,
    ),
    "gradient_noise_every_epochs": Setting(
        default=None,
        accepts={"type": ["integer", "null"], "minimum": 1},
        doc=(
            "Epochs between two measurements of the gradient noise scale (McCandlish et al. 2018), the batch from "
            "which on noise no longer limits the training. A measurement takes at least 8 per-device batches without "
            "an update, between windows, and the memory of two more copies of the gradients, which is in the peak "
            "memory."
        ),
        gate=not_gated("it is measured between windows, without an update"),
        memory=True,
        work=False,
        variant=False,
    ),
    "evaluate": Setting(
        default=True,
        accepts={"type": "boolean"},
        doc="Whether the test split is evaluated at all.",
        gate=not_gated("only control runs leave evaluations out; their training is the cell's"),
        memory=False,
        work=False,
        variant=False,
        study=False,
    ),
    "trace": Setting(
        default=False,
        accepts={"type": "boolean"},
        doc=(
            "Take a few more steps under the framework's profiler after the last evaluation, and keep the trace "
            "beside the run. No number of the run includes them."
        ),
        gate=not_gated("the traced steps come after everything that is recorded of the run"),
        memory=False,
        work=False,
        variant=False,
    ),
    "eval_batch_size": Setting(
        default=None,
        accepts={"type": ["integer", "null"], "minimum": 1},
        doc="Images per device and step of an evaluation. null: per_device_batch_size.",
        gate=by_task("a full batch and a short last one"),
        memory=True,
        work=False,
    ),
    "eval_devices": Setting(
        default="all",
        accepts={"enum": ["all", "first"]},
        doc=(
            "Devices that predict in an evaluation: all share the test images, or the first predicts while the "
            "others wait."
        ),
        gate=by_task("all devices with one optimizer, the first one with the other"),
        memory=False,
        work=False,
    ),
    "eval_prefetch": Setting(
        default=True,
        accepts={"type": "boolean"},
        doc=(
            "Read up to `prefetch` batches of an evaluation in the last steps before it. With false, reading begins "
            "with the evaluation."
        ),
        gate=not_gated("when batches are read does not change them"),
        memory=True,
        work=False,
    ),
    "init": Setting(
        default="random",
        accepts={"type": "string"},
        doc=(
            "Initial weights: drawn (`random`), torchvision's (`imagenet`), or a `.safetensors` file with canonical "
            "names and layouts. The last layer is drawn if the number of classes differs."
        ),
        gate=not_gated("every framework reads the weights from one file, and the gate compares what it has read"),
        memory=False,
        work=True,
    ),
    "normalization": Setting(
        default=None,
        accepts={"enum": ["data", "imagenet", "symmetric", None]},
        doc=(
            "Mean and deviation by which levels are normalised: of the training images by channel (`data`), of "
            "ImageNet, or 127.5 and 127.5 (`symmetric`: levels from -1 to 1). null: what the weights of `init: "
            "imagenet` were trained with, otherwise `data`."
        ),
        gate=by_task("each channel has its own mean and deviation"),
        memory=False,
        work=True,
    ),
    "label_smoothing": Setting(
        default=0,
        accepts={"type": "number", "minimum": 0, "exclusiveMaximum": 1},
        doc=(
            "Part of the true class's probability that is spread evenly over all classes, itself included. Only for "
            "one label per image."
        ),
        gate=in_cell(),
        memory=True,
        work=True,
    ),
    "random_flip": Setting(
        default=False,
        accepts={"type": "boolean"},
        doc="Flip half of the training images left to right.",
        gate=by_task("on; the bytes of each batch are compared"),
        memory=False,
        work=True,
    ),
    "random_crop_padding": Setting(
        default=0,
        accepts={"type": "integer", "minimum": 0},
        doc="Zero pixels added on each side before a random crop to the image's size, or to that of `crop`.",
        gate=by_task("on; the bytes of each batch are compared"),
        memory=False,
        work=True,
    ),
    "crop": Setting(
        default=None,
        accepts={"type": ["array", "null"], "items": {"type": "integer", "minimum": 1}, "minItems": 2, "maxItems": 2},
        doc=(
            "Height and width of the network's input, `[224, 224]` for example: cropped at a random place in "
            "training, from the centre in evaluation."
        ),
        gate=by_task("on; the bytes of each batch are compared, and evaluation takes the centre"),
        memory=False,
        work=True,
    ),
    "random_resized_crop": Setting(
        default=None,
        accepts={
            "type": ["object", "null"],
            "additionalProperties": False,
            "required": ["size"],
            "properties": {
                "size": {
                    "description": (
                        "Height and width to which the part is resized, and those of the centre in evaluation. It is "
                        "the size of the network's input."
                    ),
                    "type": "array",
                    "items": {"type": "integer", "minimum": 1},
                    "minItems": 2,
                    "maxItems": 2,
                },
                "area": {
                    "description": "Least and largest part of the image's area.",
                    "type": "array",
                    "items": {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
                    "minItems": 2,
                    "maxItems": 2,
                    "default": [0.08, 1.0],
                },
                "aspect": {
                    "description": "Least and largest ratio of the part's width to its height.",
                    "type": "array",
                    "items": {"type": "number", "minimum": 0.001, "maximum": 1000},
                    "minItems": 2,
                    "maxItems": 2,
                    "default": [0.75, 1.3333333333333333],
                },
            },
        },
        doc=(
            "Train on a random part of each image, resized to `size`; evaluate on the centre. In place of `crop` and "
            "`random_crop_padding`."
        ),
        gate=not_gated(
            "the shared loader resizes before any framework sees the images; native loaders have a cell of their own"
        ),
        memory=False,
        work=True,
    ),
    "prefetch": Setting(
        default=2,
        accepts={"type": "integer", "minimum": 0},
        doc=(
            "Batches that a background thread loads and copies to the devices ahead of the training, and steps (at "
            "least one) by which the host may run ahead of the devices. 0 loads each batch when it is needed."
        ),
        gate=by_task("two batches ahead"),
        memory=True,
        work=False,
    ),
    "loader": Setting(
        default="shared",
        accepts={"enum": ["shared", "native", "dali"]},
        doc=(
            "`shared` is one loader for all frameworks, `native` each framework's own, `dali` NVIDIA's DALI on the "
            "CPU, for PyTorch without Horovod. All give the same images in the same order."
        ),
        gate=in_cell("its value, and whether a native one resizes"),
        memory=False,
        work=False,
    ),
    "loader_workers": Setting(
        default=1,
        accepts={"type": "integer", "minimum": 1},
        doc="Loader workers per device.",
        gate=not_gated("which images form a batch, and how each is changed, is drawn for each image by its number"),
        memory=False,
        work=False,
    ),
    "loader_kind": Setting(
        default=None,
        accepts={"enum": ["threads", "processes", None]},
        doc="Workers of a native loader. null: the framework's usual kind. The shared loader always has threads.",
        gate=in_cell(),
        memory=False,
        work=False,
    ),
    "frozen_batches": Setting(
        default=False,
        accepts={"type": "boolean"},
        doc=(
            "Whether every epoch has the batches of the first, with their changes of the images: they stay in the "
            "host's memory, and later epochs shuffle them as batches."
        ),
        gate=in_cell(),
        memory=False,
        work=True,
        variant=False,
        study=False,
    ),
    "batchnorm": Setting(
        default="local",
        accepts={"enum": ["local", "synchronized"]},
        doc="Statistics of each device's own images, or of the global batch.",
        gate=in_cell(),
        memory=True,
        work=True,
    ),
    "eval_batchnorm": Setting(
        default="running",
        accepts={"enum": ["running", "batch", "first"]},
        doc=(
            "Statistics of BatchNorm in evaluation: `running` is the mean of all devices' running statistics, "
            "`first` those of the first device, `batch` those of the images that are predicted together."
        ),
        gate=not_gated("only unfair protocols set it, whose runs are in no ranking; their training is the cell's"),
        memory=False,
        work=False,
        variant=False,
        study=False,
    ),
    "tier": Setting(
        default="stock",
        accepts={
            "enum": ["stock", "best"],
        },
        doc=(
            "`stock` trains as the loop in the framework's documentation does, `best` by its recommended fast path. "
            "The mathematics is the same."
        ),
        gate=in_cell(),
        memory=True,
        work=False,
    ),
    "loss_on_every_device": Setting(
        default=False,
        accepts={"type": "boolean"},
        doc="pytorch_dp only: compute the loss on each device instead of gathering the logits on the first.",
        gate=in_cell(),
        memory=True,
        work=False,
    ),
    "loss_on_first_device": Setting(
        default=False,
        accepts={"type": "boolean"},
        doc=(
            "mxnet_gluon only: gather the logits of a process's devices on its first, and compute the loss there, as "
            "pytorch_dp does."
        ),
        gate=in_cell(),
        memory=True,
        work=False,
    ),
    "reads_every_loss": Setting(
        default=False,
        accepts={"type": "boolean"},
        doc="Whether the host reads the loss of each step before it enqueues the next one, instead of once a window.",
        gate=in_cell(),
        memory=False,
        work=False,
        variant=False,
        study=False,
    ),
    "memory_growth": Setting(
        default=None,
        accepts={"type": ["boolean", "null"]},
        doc=(
            "TensorFlow on GPUs only: take memory when it is needed, or nearly all at the start. null: true with "
            "Horovod, otherwise false."
        ),
        gate=not_gated("how memory is taken does not change what is computed in it"),
        memory=True,
        work=False,
    ),
    "gradient_compression": Setting(
        default="none",
        accepts={"enum": ["none", "fp16", "powersgd"]},
        doc=(
            "Before devices exchange gradients: `fp16` halves them, `powersgd` sends two thin factors of each matrix "
            "and adds the error to the next step's gradient (Vogels et al. 2019)."
        ),
        gate=in_cell(),
        memory=True,
        work=True,
    ),
    "exchange": Setting(
        default="all",
        accepts={"enum": ["all", "none"]},
        doc="Whether devices exchange gradients. With `none` each replica trains alone.",
        gate=not_gated("only control runs leave the exchange out, which are in no ranking and train no network"),
        memory=False,
        work=True,
        variant=False,
        study=False,
    ),
    "powersgd_rank": Setting(
        default=2,
        accepts={"type": "integer", "minimum": 1},
        doc="Columns of each factor of PowerSGD.",
        gate=in_cell("its value, with PowerSGD"),
        memory=True,
        work=True,
    ),
    "loss_scale": Setting(
        default=65536,
        accepts={"type": "number", "minimum": 1, "maximum": 1e30},
        doc=(
            "Initial loss scale of `fp16`, in all frameworks. It doubles after 2000 steps without an overflow; a "
            "step whose gradients are not finite is skipped and halves it."
        ),
        gate=by_task("a scale at which nothing overflows, and one step at which all gradients of one device do"),
        memory=True,
        work=True,
    ),
    "horovod_controller": Setting(
        default="gloo",
        accepts={"enum": ["gloo", "mpi"]},
        doc="How Horovod's processes start and talk: `gloo` by horovodrun, or srun in a SLURM job; `mpi` by mpirun.",
        gate=in_cell(),
        memory=False,
        work=False,
    ),
    "independent": Setting(
        default=False,
        accepts={"type": "boolean"},
        doc=(
            "Do the whole run on each device of a node by itself, at the same time. The rate is the slowest device's "
            "times their number. Needs `scaling: weak`."
        ),
        gate=not_gated("each device does the run on one device, which the cell covers"),
        memory=False,
        work=True,
    ),
    "optimizer": Setting(
        default={},
        accepts={
            "type": "object",
            "additionalProperties": False,
            "properties": {
                **{key: setting.rule for key, setting in OPTIMIZER.items()},
                BY_FRAMEWORK: {
                    "description": (
                        "Learning rates of single frameworks, such as `{chainer_mn: {lr_scaling: none}}`. An entry may "
                        "have `learning_rate`, `lr_scaling`, `lr_reference_batch_size` and `lr_warmup_epochs`; what it "
                        "leaves out is as for the other frameworks."
                    ),
                    "type": "object",
                    "additionalProperties": {
                        "type": "object",
                        "additionalProperties": False,
                        "minProperties": 1,
                        "properties": {key: OPTIMIZER[key].accepts for key in PER_FRAMEWORK_KEYS},
                    },
                    "default": {},
                },
            },
        },
        doc="Update rule and learning-rate schedule, with the same arithmetic in every framework.",
        gate=in_cell("its form, see below"),
        memory=True,
        work=True,
    ),
}
"""All settings of a run, in the order of the reference."""
TRAINING_KEYS = tuple(key for key, setting in SETTINGS.items() if setting.study)
"""Settings that a study can set."""


def list_defaults() -> dict[str, Any]:
    """Return the default of every setting, with those of the optimizer's keys."""
    optimizer = {key: setting.default for key, setting in OPTIMIZER.items()}
    return {key: setting.default for key, setting in SETTINGS.items()} | {"optimizer": optimizer}
