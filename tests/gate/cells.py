"""The cells that the gate's tests observe, by what one start of a framework does."""

from gate.faults import FAMILIES
from gate.observing import ADAM
from helpers.published_networks import read_networks
from howmanygpus.config.schema import study_defaults
from howmanygpus.registry import FRAMEWORKS, explain_unsupported
from howmanygpus.site.machine import Device
from howmanygpus.study.gate_cells import describe_settings, select_settings
from howmanygpus.study.loaders import explain_missing_loader
from measure.launching import BY_MPI

CPU = Device(2, 1)
SMALL = {"model": "small_cnn", **BY_MPI}
ACCUMULATED = {"variation": f"_accumulated_{ADAM}"}
FROZEN = {"variation": f"_frozen_{ADAM}"}
DEEP = {"model": "resnet44", "model_options": {"blocks": 1}}
SIGMOID = SMALL | {"variation": f"_multilabel_{ADAM}"}
"""Any number of labels an image, of which some are missing."""
FORMS = {
    "small_adamw": SMALL | {"variation": "_adamw-decayweights-step-linearscaled-perdevice"},
    "small_plain": SMALL | {"variation": "_sgd-constant"},
}
"""Other optimizers: each rule with other decays, and each schedule and scaling."""
ON_ONE = {"small": SMALL, "small_bf16": SMALL | {"precision": "bf16"}, "small_fp16": SMALL | {"precision": "fp16"}}
ON_ONE |= FORMS
"""Cells that each framework is observed at on one device: with biases and pooling."""
DROPPING = {
    "model": "alexnet",
    "model_options": {"width": 4, "kernel": 3, "stride": 1, "poolings": [1], "hidden": 16, "dropout": 0.3},
}
"""A network that drops units."""
NETWORKS = {
    "resnet18": {"model": "resnet18", "model_options": {"blocks": [1, 1], "width": 8}},
    "resnet50": {"model": "resnet50", "model_options": {"blocks": [1, 1], "width": 4}},
    "densenet121": {"model": "densenet121", "model_options": {"blocks": [2, 1], "growth": 4, "width": 8}},
    "alexnet": DROPPING,
    "vit_b16": {"model": "vit_b16", "model_options": {"patch": 3, "depth": 2, "heads": 2, "head_width": 4, "mlp": 12}},
    "inception_v3": {"model": "inception_v3", "model_options": {"blocks": [1, 1, 1], "width": 2, "stem": "small"}},
}
"""Short versions of the other networks, at which one framework of each family is observed."""
WRITTEN_FOR = {name: network.families for name, network in read_networks().items()}
"""Families of the networks."""
LOSSES = {
    "sigmoid": SIGMOID,
    "sigmoid_accumulated": SMALL | {"variation": f"_multilabel_accumulated_{ADAM}"},
    "smoothed": SMALL | {"variation": f"_smoothing0.1_{ADAM}"},
}
ON_TWO = {
    **{"deep": DEEP, "deep_synchronized": DEEP | {"batchnorm": "synchronized"}},
    **{"deep_accumulated": DEEP | ACCUMULATED, **LOSSES},
    **{"deep_first": DEEP | {"more": {"eval_batchnorm": "first"}}, "small_frozen": SMALL | FROZEN},
    "small_every_loss": SMALL | {"more": {"reads_every_loss": True}},
    "deep_fp16": DEEP | {"precision": "fp16"} | ACCUMULATED,
    "small_per_device": SMALL | {"variation": "_accumulated_sgd-momentum-decay-constant-sqrtscaled-perdevice-warmup"},
}
"""On two, if the framework can: with BatchNorm and shortcuts, whose code XLA optimises, and with the other losses."""
NETWORKS_ON = {
    1: NETWORKS,
    2: {name: NETWORKS[name] for name in ("resnet50", "densenet121", "alexnet", "vit_b16", "inception_v3")},
}
"""The networks that are observed, by the number of devices. On two, resnet50 stands for resnet18, whose code it has."""
DALI = {"loader": "dali"}
VARIANTS = {
    "best": {"tier": "best"},
    "native": {"loader": "native"},
    "fp16": {"gradient_compression": "fp16"},
    "powersgd": {"gradient_compression": "powersgd"},
    "loss_on_first_device": {"loss_on_first_device": True},
}


def supports(framework: str, cell: dict) -> bool:
    entry = FRAMEWORKS[framework]
    batchnorm, precision = cell.get("batchnorm", "local"), cell.get("precision", "fp32")
    return batchnorm in entry.batchnorm["cpu"] and precision in entry.precisions["cpu"]


def count_devices(framework: str) -> int:
    """Two, if the framework can train on two CPUs."""
    return FRAMEWORKS[framework].max_devices.get("cpu", 2)


def cells_on(num_devices: int, framework: str) -> dict[str, dict]:
    """Return the cells that one start observes: also the networks, if the framework stands for its family."""
    cells = {1: ON_ONE, 2: ON_TWO}[num_devices]
    stands = framework in [family.strategy for family in FAMILIES.values()]
    networks = {name: NETWORKS[name] for name in list_networks(FRAMEWORKS[framework].family, num_devices)}
    return cells | networks if stands else cells


def list_networks(family: str, num_devices: int) -> list[str]:
    """Return the networks at which a family is observed."""
    return [name for name in NETWORKS_ON[num_devices] if family in WRITTEN_FOR[name]]


def find_short_networks(family: str) -> dict[str, dict]:
    """Return the options of a short version of each network of a family."""
    options = {cell["model"]: cell.get("model_options", {}) for cell in (SMALL, DEEP, *NETWORKS.values())}
    return {name: given for name, given in options.items() if family in WRITTEN_FOR.get(name, family)}


def find_variants(framework: str) -> dict[str, dict]:
    """Return the cells of a framework's variants. Horovod's controller by MPI is that of every other test."""
    usual, cells = study_defaults(), {}
    for name, changes in VARIANTS.items():
        settings = usual | changes
        if explain_unsupported(framework, CPU, "fp32", (1, 1), settings):
            continue
        if not explain_missing_loader(framework, "png", settings):
            cells[name] = SMALL | describe_settings(select_settings(framework, "png", settings)) | BY_MPI
    if "native" in cells:
        cells["native_sigmoid"] = cells["native"] | {"variation": SIGMOID["variation"]}
        resizing = usual | VARIANTS["native"] | {"random_resized_crop": {"size": [8, 8]}}
        if not explain_missing_loader(framework, "png", resizing):
            cells["native_resized"] = cells["native"] | {"variation": f"_resized_{ADAM}"}
    return cells
