"""A study starts from random, published or given weights; what does not fit its network is refused by name."""

import re
from pathlib import Path

import numpy as np
import pytest
import yaml
from safetensors.numpy import save_file

from helpers.messages import list_texts
from howmanygpus.config.errors import ConfigError
from howmanygpus.measure.models.initialization import draw_weights
from howmanygpus.measure.models.networks import list_draws
from howmanygpus.measure.spec import RunSpec
from howmanygpus.site.machine import Device, Machine
from howmanygpus.study.checks.initial_weights import list_shapes
from howmanygpus.study.networks import list_pretrained, read_published
from howmanygpus.study.plan import Plan
from project import ROOT, study

CPU = Machine("machine.yaml", {"cpu": Device(8, 1)})
COUNTS = {"num_classes": 10, "num_train": 99, "num_test": 9}
RGB = {"source": "patterns", "options": {"image_shape": [64, 64, 3], **COUNTS}}
LARGE = {"source": "patterns", "options": {"image_shape": [256, 256, 3], **COUNTS}}
SHAPE, CLASSES = (8, 8, 1), 10
HERE = "studies.s.init"


def make_plan(model="resnet18", dataset="photos", **changes) -> Plan:
    given = study(model=model, dataset=dataset, frameworks=["pytorch_ddp"], devices=["cpu"], num_gpus=[1], **changes)
    return Plan({"studies": {"s": given}, "datasets": {"photos": RGB, "large": LARGE}}, CPU)


def draw(model="small_cnn", shape=SHAPE, num_classes=CLASSES) -> dict[str, np.ndarray]:
    return draw_weights(list_draws(model, shape, num_classes), seed=1)


def store(path: Path, weights: dict[str, np.ndarray]) -> str:
    save_file(weights, path)
    return str(path)


def refused(message: str, **changes) -> None:
    with pytest.raises(ConfigError) as caught:
        make_plan(**changes)
    assert message in str(caught.value)


def only(plan: Plan) -> tuple:
    """Return the study, its run, and the settings whose change reruns this."""
    planned = plan.studies["s"]
    return planned, planned.runs[0], planned.settings(planned.runs[0])


def test_an_augmentation_of_one_framework_has_images_of_the_size_of_the_given_weights(tmp_path):
    given = {"own_augmentation": {"pytorch_ddp": {"crop": None}}}
    changes = {"model": "vit_b16", "dataset": "large", "crop": [224, 224], "published": "chexnet", "protocols": given}
    where = "protocols.own_augmentation.pytorch_ddp"
    message = f'{HERE}: "imagenet" is for images of 224x224 pixels, and those of {where} have 256x256: it '
    refused(message, init="imagenet", **changes)
    options = {"depth": 1, "heads": 1, "head_width": 8, "mlp": 8}
    weights = draw_weights(list_draws("vit_b16", (224, 224, 3), CLASSES, **options), seed=1)
    path = store(tmp_path / "vit.safetensors", weights)
    refused(f"is not for this vit_b16 with {where}: it ", init=path, model_options=options, **changes)


def test_a_random_start_is_named_nowhere():
    planned, run, settings = only(make_plan())
    assert planned.weights_file(run) == "results/weights/resnet18_64x64x3_classes10_seed1.safetensors"
    assert not {"init", "normalization"} & settings.keys()
    spec = RunSpec.from_dict(planned.spec(run))
    assert (spec.init, spec.normalization) == ("random", "data")


@pytest.mark.parametrize("model", list_pretrained())
def test_published_weights_have_a_file_of_their_own_and_their_normalization(model):
    plan = make_plan(model, "large", init="imagenet", crop=[224, 224])
    planned, run, settings = only(plan)
    assert planned.weights_file(run) == f"results/weights/{model}_224x224x3_classes10_seed1_imagenet.safetensors"
    assert settings["init"] == "imagenet" and "normalization" not in settings
    spec = RunSpec.from_dict(planned.spec(run))
    assert spec.normalization == ("symmetric" if model == "inception_v3" else "imagenet")
    assert plan.find_doubts() == []


@pytest.mark.parametrize(
    ("message", "changes"),
    [
        (f'{HERE}: "imagenett" is not known here; did you mean imagenet?', {"init": "imagenett"}),
        (f'{HERE}: "imagenet" has no weights for resnet44, for which torchvision', {"model": "resnet44"}),
        ("choose from alexnet, densenet121, inception_v3, resnet18, resnet50, vit_b16, wr", {"model": "resnet44"}),
        ('"imagenet" is for images of 3 channels, and those of digits have 1; prepare them', {"dataset": "digits"}),
        ("and model_options.width differs; remove width", {"model_options": {"width": 32}}),
        ("and model_options.blocks differs; remove blocks", {"model_options": {"blocks": [1, 1, 1, 1]}}),
        ("has tokens.position of 1x197x768, not 1x17x768; write crop: [224, 224]", {"model": "vit_b16"}),
        ("has hidden1.kernel of 9216x4096, not 256x4096; write crop: [224, 224]", {"model": "alexnet"}),
        (
            "studies.s.variants.v.init: ",
            {"model": "resnet44", "init": "random", "variants": {"v": {"init": "imagenet"}}},
        ),
    ],
)
def test_published_weights_of_another_network_are_refused(message, changes):
    refused(message, **({"init": "imagenet"} | changes))


def test_options_that_only_training_knows_are_allowed():
    options = {"dropout": 0.25}
    planned, run, _ = only(make_plan("alexnet", "large", init="imagenet", crop=[224, 224], model_options=options))
    assert planned.weights_file(run).endswith("_imagenet.safetensors")


def test_a_file_is_known_by_its_content(tmp_path):
    first = store(tmp_path / "a.safetensors", draw())
    again = store(tmp_path / "b.safetensors", draw())
    other = store(tmp_path / "c.safetensors", {name: array + 1 for name, array in draw().items()})
    found = [only(make_plan("small_cnn", "digits", init=path)) for path in (first, again, other)]
    assert found[0][2] == found[1][2] != found[2][2]
    names = [planned.weights_file(run) for planned, run, _ in found]
    digest = found[0][2]["init"].removeprefix("sha256:")
    assert names[0] == names[1] == f"results/weights/small_cnn_8x8x1_classes10_seed1_from-{digest[:12]}.safetensors"
    assert RunSpec.from_dict(found[0][0].spec(found[0][1])).init == f"sha256:{digest}"
    plan = make_plan("small_cnn", "digits", init=first)
    assert plan.initial_weights_files == {f"from-{digest[:12]}": first}


def test_a_file_may_lack_the_last_layer_or_have_one_for_other_classes(tmp_path):
    headless = {name: array for name, array in draw().items() if not name.startswith("dense.")}
    for name, weights in (("none", headless), ("other", draw(num_classes=7))):
        make_plan("small_cnn", "digits", init=store(tmp_path / f"{name}.safetensors", weights))


def broken(kind: str) -> dict[str, np.ndarray]:
    weights, first = draw(), next(iter(draw()))
    if kind == "missing":
        del weights[first]
    elif kind == "unknown":
        weights["fc.weight"] = weights.pop(first)[:0] + np.zeros((1,), np.float32)
        weights[first] = draw()[first]
    elif kind == "transposed":
        weights[first] = np.ascontiguousarray(weights[first].transpose(3, 2, 0, 1))
    elif kind == "half":
        weights[first] = weights[first].astype(np.float16)
    elif kind == "half a head":
        del weights["dense.bias"]
    return weights


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("missing", "is not for this small_cnn: it lacks conv1.kernel; take the names and layouts"),
        ("unknown", "it has fc.weight, which the network lacks"),
        ("transposed", "it has conv1.kernel of "),
        ("half", "has conv1.kernel as F16; store all arrays as float32"),
        ("half a head", "it lacks dense.bias"),
    ],
)
def test_arrays_of_a_file_that_do_not_fit_are_named(tmp_path, kind, message):
    path = store(tmp_path / "weights.safetensors", broken(kind))
    refused(message, model="small_cnn", dataset="digits", init=path)


def test_files_that_are_none_are_refused(tmp_path):
    (tmp_path / "text.safetensors").write_text("no arrays")
    (tmp_path / "weights.pth").write_text("no arrays")
    for path, message in (
        ("text.safetensors", "cannot be read ("),
        ("weights.pth", "has no name that ends in .safetensors"),
        ("gone.safetensors", "does not exist, seen from"),
        ("", "is a folder; name a file"),
    ):
        refused(message, model="small_cnn", dataset="digits", init=f"{tmp_path}/{path}")


def test_normalization_needs_its_channels_and_warns_about_other_weights():
    refused(
        'studies.s.normalization: "imagenet" is for images of 3 channels, and those of digits have 1; write data',
        **{"dataset": "digits", "normalization": "imagenet"},
    )
    plan = make_plan(normalization="imagenet")
    planned, run, settings = only(plan)
    assert settings["normalization"] == planned.spec(run)["normalization"] == "imagenet"
    assert plan.find_doubts() == []
    (doubt,) = list_texts(make_plan(init="imagenet", normalization="data").find_doubts())
    assert doubt.startswith("studies.s.normalization: data is not what the published weights of resnet18 were trained")


def test_a_variant_may_start_otherwise():
    plan = make_plan(variants={"base": {}, "pretrained": {"init": "imagenet"}})
    files = {run.variant: plan.studies["s"].weights_file(run).rpartition("_seed1")[2] for run in plan.runs.values()}
    assert files == {"base": ".safetensors", "pretrained": "_imagenet.safetensors"}
    assert len(set(plan.verdicts.values())) == 1, "the gate's task has weights of its own"


def test_shapes_are_known_without_drawing():
    for model, shape in (("small_cnn", SHAPE), ("resnet44", SHAPE), ("resnet18", (32, 32, 3))):
        assert list_shapes(model, shape, 7) == {name: array.shape for name, array in draw(model, shape, 7).items()}


def test_the_documented_example_and_table_of_files_are_true():
    text = (ROOT / "config" / "README.md").read_text()
    example = yaml.safe_load(re.search(r"<!-- example: init -->\n```yaml\n(.*?)```", text, re.DOTALL)[1])
    plan = make_plan(example.pop("model"), "large", **example)
    assert {start.word for start in plan.studies["s"].starts.values()} == {"random", "imagenet"}
    listed = dict(re.findall(r"^\| `(\w+)` \| \d+ MB \| `([^`]+)`", text, re.MULTILINE))
    assert listed == {model: read_published(model).file for model in list_pretrained()}
