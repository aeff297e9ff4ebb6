"""A study's crop is the size of its network's input wherever a plan has it."""

import json
from pathlib import Path

import pytest

from howmanygpus.config.errors import ConfigError
from howmanygpus.gate.task import draw_data, make_spec
from howmanygpus.measure.spec import ResizedCropSpec, RunSpec
from howmanygpus.registry import FRAMEWORKS
from howmanygpus.site.machine import Device, Machine
from howmanygpus.study.gate_cells import list_gated_defaults
from howmanygpus.study.loaders import NATIVE_LOADERS
from howmanygpus.study.plan import Plan
from project import study

CPU = Machine("machine.yaml", {"cpu": Device(8, 1)})
RESIZED = {"random_resized_crop": {"size": [4, 7]}}


def make_study(**changes):
    """A study of the digits, which are stored as 8x8x1."""
    given = study(**{"frameworks": ["pytorch_ddp"], "devices": ["cpu"], **changes})
    return Plan({"studies": {"small": given}}, CPU).studies["small"]


@pytest.mark.parametrize(
    ("changes", "shape"),
    [
        ({}, (8, 8, 1)),
        ({"crop": None}, (8, 8, 1)),
        ({"crop": [6, 5]}, (6, 5, 1)),
        ({"crop": [8, 8]}, (8, 8, 1)),
        (RESIZED, (4, 7, 1)),
    ],
)
def test_weights_and_gate_have_the_size_of_the_crop(changes, shape):
    planned = make_study(**changes)
    for run in planned.runs:
        cell = planned.parity_cell(run)
        assert planned.image_shape(run) == shape == cell.shape
        size = "x".join(map(str, shape))
        assert f"_{size}_classes10_seed1.safetensors" in planned.weights_file(run)
        assert cell.task.startswith(f"small_cnn_{size}_classes10_local_")


def test_a_spec_has_the_crop():
    resized = make_study(**RESIZED)
    spec = RunSpec.from_dict(json.loads(json.dumps(resized.spec(resized.runs[0]))))
    assert spec.random_resized_crop == ResizedCropSpec([4, 7], [0.08, 1.0], [0.75, 4 / 3])
    assert (spec.crop, spec.crop_size) == (None, [4, 7])
    cropped = make_study(crop=[6, 5])
    spec = RunSpec.from_dict(cropped.spec(cropped.runs[0]))
    assert (spec.crop_size, spec.random_resized_crop) == ([6, 5], None)
    assert RunSpec.from_dict(spec.to_dict()) == spec


def test_a_variant_has_a_crop_of_its_own():
    variants = {"base": {}, "smaller": {"crop": [5, 5]}, "resized": {"crop": None, **RESIZED}, "whole": {"crop": None}}
    planned = make_study(crop=[6, 6], variants=variants)
    shapes = {run.variant: planned.image_shape(run)[:2] for run in planned.runs}
    assert shapes == {"base": (6, 6), "smaller": (5, 5), "resized": (4, 7), "whole": (8, 8)}
    assert len({planned.parity_cell(run).verdict for run in planned.runs}) == 4


def test_only_the_crops_that_differ_from_the_default_are_settings_of_a_run():
    def settings(**changes):
        planned = make_study(**changes)
        return planned.settings(planned.runs[0])

    assert settings() == settings(crop=None, random_resized_crop=None)
    assert settings(crop=[6, 5]) == settings() | {"crop": [6, 5]}
    spelled_out = {"size": [4, 7], "area": [0.08, 1.0], "aspect": [0.75, 4 / 3]}
    assert settings(**RESIZED) == settings(random_resized_crop=spelled_out)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_native_loader_that_resizes_otherwise_is_unsupported(framework):
    changes = {"frameworks": [framework], "inputs": ["png"], "variants": {"own": {"loader": "native"}}}
    cropped, resized = make_study(crop=[6, 6], **changes), make_study(**RESIZED, **changes)
    loader = NATIVE_LOADERS.get(FRAMEWORKS[framework].native_loader)
    if loader is None:
        return
    assert {run.unsupported for run in cropped.runs if run.num_gpus == 1} == {""}
    reasons = {run.unsupported for run in resized.runs if run.num_gpus == 1}
    why = f"{framework}'s own loader resizes {loader.resizes}, so that random_resized_crop gives other pixels"
    assert reasons == ({why} if framework in OTHERWISE else {""})


OTHERWISE = {"horovod_tensorflow", "tensorflow_mirrored", "tensorflow_multiworker", "mxnet_gluon"}
"""Their users resize by tf.image or mx.image."""


def test_the_gate_crops_images_that_are_larger_than_the_networks_input():
    planned = make_study(crop=[6, 5])
    cell = planned.parity_cell(planned.runs[0]).describe()
    names = {"framework": "pytorch_ddp", "family": "torch", "strategy": "ddp", "launcher": "plain"}
    spec = make_spec(names, cell, {"num_gpus": 1, "num_nodes": 1}, "sgd", Path("task"), list_gated_defaults())
    assert spec.crop_size == (6, 5) and spec.random_flip
    _, height, width, channels = draw_data((6, 5, 1), 10, seed=0).train_images.shape
    assert height > 6 and width > 5 and channels == 1


LARGE = {"image_shape": [264, 264, 3], "num_classes": 3, "num_train": 256, "num_test": 30}
SMALL_CROP = {"random_resized_crop": {"size": [40, 40]}}
REFUSED = [
    ({"crop": [32, 32]}, "32x32 pixels, to which studies.s.crop crops them; crop to at least 63x63, or make the"),
    (SMALL_CROP, "40x40 pixels, to which studies.s.random_resized_crop crops them; crop to at least 63x63, or"),
    (
        {"crop": [224, 224], "variants": {"base": {}, "small": {"crop": [32, 32]}}},
        "32x32 pixels, to which studies.s.variants.small.crop crops them; crop to at least 63x63, or make the",
    ),
    (
        {"published": "chexnet", "protocols": {"own_augmentation": {"pytorch_ddp": {"crop": [32, 32]}}}},
        "32x32 pixels, to which studies.s.protocols.own_augmentation.pytorch_ddp.crop crops them; crop to at least",
    ),
]


def plan_large(**changes) -> Plan:
    common = {"dataset": "large", "model": "alexnet", "frameworks": ["pytorch_ddp"], "devices": ["cpu"]}
    datasets = {"large": {"source": "patterns", "options": LARGE}}
    return Plan({"studies": {"s": study(**common | changes)}, "datasets": datasets}, CPU)


@pytest.mark.parametrize(("changes", "message"), REFUSED)
def test_a_network_is_refused_images_that_are_cropped_to_less_than_it_takes(changes, message):
    with pytest.raises(ConfigError) as raised:
        plan_large(**changes)
    assert f'studies.s.model: "alexnet" leaves nothing of images of {message}' in str(raised.value)


@pytest.mark.parametrize(
    "changes",
    [
        {"crop": [32, 32]},
        {"published": "chexnet", "protocols": {"own_augmentation": {"pytorch_ddp": {"crop": [32, 32]}}}},
    ],
)
def test_a_batch_of_one_image_that_is_cropped_to_one_pixel_of_the_network_is_refused(changes):
    with pytest.raises(ConfigError, match="per_device_batch_size: 1 leaves resnet18 one value per channel"):
        plan_large(model="resnet18", per_device_batch_size=[1], num_gpus=[1], **changes)
    assert plan_large(model="resnet18", per_device_batch_size=[1], num_gpus=[1], crop=[64, 64])
