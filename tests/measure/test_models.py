"""Test canonical parameters, initial weights, and the layers from which models are built."""

import ast
import math
from pathlib import Path

import numpy as np
import pytest

from gate.cells import WRITTEN_FOR
from helpers.published_networks import read_networks
from howmanygpus.measure.models.initialization import draw_weights, is_trainable
from howmanygpus.measure.models.layers.dense import Dense
from howmanygpus.measure.models.layers.flatten import Flatten
from howmanygpus.measure.models.layout import Layout, chain
from howmanygpus.measure.models.networks import list_draws
from howmanygpus.study.checks.initial_weights import list_shapes
from howmanygpus.study.invalidation.code import collect_training_code, list_missing_layers
from howmanygpus.study.networks import list_models
from project import ROOT

LIBRARY = Path("workflow/lib/howmanygpus")


@pytest.mark.parametrize("network", read_networks().values(), ids=lambda network: network.name)
def test_networks_have_the_published_number_of_parameters(network):
    shapes = list_shapes(network.name, network.image_shape, network.num_classes)
    trainable = sum(math.prod(shape) for name, shape in shapes.items() if is_trainable(name))
    assert trainable == network.parameters == network.published_parameters


def test_planned_shapes_match_the_drawn_arrays():
    weights = draw_weights(list_draws("resnet44", (32, 32, 3), 10), seed=1)
    assert {name: array.shape for name, array in weights.items()} == list_shapes("resnet44", (32, 32, 3), 10)


def test_every_network_but_the_workflows_own_stands_beside_the_published_one():
    assert {*read_networks(), "small_cnn"} == set(list_models())


@pytest.mark.parametrize(("model", "layers"), [("resnet18", 18), ("resnet50", 50), ("densenet121", 121)])
def test_networks_have_as_many_weighted_layers_as_their_names_say(model, layers):
    """Not counted are the convolutions of shortcuts."""
    names = list_draws(model, (224, 224, 3), 1000)
    assert len([name for name in names if name.endswith(".kernel") and "shortcut" not in name]) == layers


def test_resnet44_has_44_weighted_layers():
    kernels = [name for name in list_draws("resnet44", (32, 32, 3), 10) if name.endswith(".kernel")]
    assert len(kernels) == 44


def test_parameters_do_not_depend_on_the_size_of_the_image():
    assert list_draws("resnet44", (8, 8, 1), 10).keys() == list_draws("resnet44", (264, 264, 1), 10).keys()
    first, second = (draw_weights(list_draws("small_cnn", (size, size, 1), 10), seed=3) for size in (8, 64))
    assert all(np.array_equal(first[name], second[name]) for name in first)


def test_weights_depend_on_seed_and_name_alone():
    draws = list_draws("small_cnn", (8, 8, 1), 10)
    backwards = dict(reversed(draws.items()))
    weights, again, other = draw_weights(draws, 5), draw_weights(backwards, 5), draw_weights(draws, 6)
    assert all(np.array_equal(weights[name], again[name]) for name in draws)
    assert not np.array_equal(weights["conv2.kernel"], other["conv2.kernel"])


def test_kernels_have_he_variance():
    kernel = draw_weights(list_draws("resnet44", (32, 32, 3), 10), seed=1)["stage3_block5_conv1.kernel"]
    assert kernel.dtype == np.float32
    assert math.isclose(kernel.std(), math.sqrt(2 / (9 * 64)), rel_tol=0.02)


LAYERS = {"conv", "batchnorm", "dense", "relu", "pooling", "global_pooling", "concatenation", "shortcut"}
LAYERS |= {"dropout", "flatten"}
OF_TRANSFORMERS = {"attention", "gelu", "layernorm", "tokens"}
"""The layers of the families that have a transformer."""
FUNCTIONS_OF_TRANSFORMERS = {"attend", "gelu", "layernorm", "tokens", "class_token"}
OF_GLUON = {"operators"}
"""The module that gluon's layers share: MXNet's operators for arrays and those for symbols."""
USED = {
    "small_cnn": {"conv", "dense", "relu", "global_pooling"},
    "resnet44": {"conv", "batchnorm", "dense", "relu", "global_pooling", "shortcut"},
    "resnet18": {"conv", "batchnorm", "dense", "relu", "global_pooling", "pooling"},
    "resnet50": {"conv", "batchnorm", "dense", "relu", "global_pooling", "pooling"},
    "densenet121": {"conv", "batchnorm", "dense", "relu", "global_pooling", "pooling", "concatenation"},
    "alexnet": {"conv", "dense", "relu", "pooling", "dropout", "flatten"},
    "vit_b16": {"conv", "dense", *OF_TRANSFORMERS},
    "inception_v3": {"conv", "batchnorm", "dense", "relu", "pooling", "global_pooling", "concatenation", "dropout"},
}
FRAMEWORK = {
    "torch": "pytorch_ddp",
    "keras": "keras_mirrored",
    "flax": "jax_sharding",
    "gluon": "mxnet_gluon",
    "chainer": "chainer_mn",
}
"""One framework of each family."""


@pytest.mark.parametrize("family", FRAMEWORK)
def test_every_family_has_every_layer_with_the_same_functions(family):
    folder = ROOT / LIBRARY / "measure" / "frameworks" / family / "layers"
    names = {path.stem for path in folder.glob("*.py")} - {"__init__", "context"} - OF_GLUON
    assert names - OF_TRANSFORMERS == LAYERS
    assert names & OF_TRANSFORMERS == (OF_TRANSFORMERS if family in WRITTEN_FOR["vit_b16"] else set())
    assert not (folder / "__init__.py").read_text(), "every layer would depend on what stands there"
    expected = functions_of(folder.parents[1] / "torch" / "layers")
    assert functions_of(folder) == {name: options for name, options in expected.items() if name in functions_of(folder)}


def functions_of(folder):
    """Return the layers, which every family has. Other functions are internal to one family."""
    names = {"conv", "batchnorm", "dense", "relu", "max_pool", "average_pool", "global_average_pool"}
    names |= {"concatenate", "shortcut", "dropout", "flatten", "image_keys"}
    trees = [ast.parse(path.read_text()) for path in sorted(folder.glob("*.py"))]
    functions = [node for tree in trees for node in tree.body if isinstance(node, ast.FunctionDef)]
    found = {
        node.name: [each.arg for each in node.args.kwonlyargs]
        for node in functions
        if node.name in names | FUNCTIONS_OF_TRANSFORMERS
    }
    assert found.keys() == names | (found.keys() & FUNCTIONS_OF_TRANSFORMERS)
    return found


@pytest.mark.parametrize("model", USED)
def test_a_family_builds_every_network_whose_layers_it_has(model):
    written_for = WRITTEN_FOR.get(model, tuple(FRAMEWORK))
    assert {family for family in FRAMEWORK if not list_missing_layers(model, family)} == set(written_for)


def test_a_network_without_feature_maps_takes_images_of_any_size():
    layout = Layout(chain(Flatten(), Dense("dense", 3)))
    assert layout.count_smallest_map((2, 3, 1)) == 6
    assert list(layout.list_draws((2, 3, 1))) == ["dense.kernel", "dense.bias"]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("dense", "dense"), "several layers are called dense"),
        (("block.dense", "dense"), "a layer is called 'block.dense'"),
        (("dense", "lambda"), "a layer is called 'lambda'"),
    ],
)
def test_layers_that_cannot_be_told_apart_or_kept_by_their_names_are_refused(names, message):
    with pytest.raises(ValueError, match=message):
        Layout(chain(*(Dense(name, 3) for name in names))).list_draws((4,))


@pytest.mark.parametrize(
    ("family", "model"), [(family, model) for model in USED for family in WRITTEN_FOR.get(model, tuple(FRAMEWORK))]
)
def test_a_run_depends_on_the_layers_of_its_model_alone(family, model, monkeypatch):
    monkeypatch.chdir(ROOT)
    files = collect_training_code(FRAMEWORK[family], model)
    layers = [Path(file) for file in files if "/layers/" in file and "/frameworks/" in file]
    assert {file.parents[1].name for file in layers} == {family}
    assert {file.stem for file in layers} - {"context"} - OF_GLUON == USED[model]
