"""Options of a model reach everything that is made for its network, and nothing that is made for another."""

import json

import pytest

from helpers.answers import write_answer
from howmanygpus.config.errors import ConfigError
from howmanygpus.gate.task import draw_task_weights
from howmanygpus.measure.models.networks import lay_out
from howmanygpus.measure.spec import RunSpec
from howmanygpus.report.tables.runs import describe_options
from howmanygpus.site.machine import Device, Machine
from howmanygpus.study.networks import name_network
from howmanygpus.study.plan import Plan
from project import study

CPU = Machine("machine.yaml", {"cpu": Device(8, 1)})
SHORT = {"blocks": [1, 1], "width": 8}
NAME = "resnet18-blocks1-1-width8"
NOISE = {"dataset": "noise", "inputs": ["synthetic"]}
ONE = study(frameworks=["pytorch_ddp"], devices=["cpu"], num_gpus=[1], parity="required", model="resnet18")


def make_plan(datasets=None, **studies) -> Plan:
    return Plan({"studies": studies} | ({"datasets": datasets} if datasets else {}), CPU)


def images(height, width=None, channels=3):
    shape = {"image_shape": [height, width or height, channels], "num_classes": 5, "num_train": 640, "num_test": 10}
    return {"noise": {"source": "synthetic", "options": shape}}


def test_options_reach_the_run_its_weights_and_its_gate():
    plan = make_plan(s=ONE | {"model_options": SHORT})
    (run,) = plan.runs.values()
    each, (cell,) = plan.studies["s"], plan.cells.values()
    assert json.loads(plan.settings[run.path])["model_options"] == SHORT
    assert each.weights_file(run) == f"results/weights/{NAME}_8x8x1_classes10_seed1.safetensors"
    assert cell.task.startswith(f"{NAME}_8x8x1_classes10_local_") and cell.verdict.startswith(
        f"results/parity/{cell.task}/"
    )
    assert json.loads(cell.request())["model_options"] == SHORT
    assert RunSpec.from_dict(each.spec(run)).model_options == SHORT
    assert plan.networks == {NAME: SHORT}


def test_an_option_equal_to_the_models_own_changes_nothing():
    without, own = make_plan(s=ONE), make_plan(s=ONE | {"model_options": {"blocks": [2, 2, 2, 2]}})
    assert own.settings == without.settings and own.verdicts == without.verdicts
    assert own.studies["s"].describe() == without.studies["s"].describe()
    assert "model_options" not in next(iter(without.settings.values()))


def test_the_order_of_options_changes_nothing():
    first, second = (make_plan(s=ONE | {"model_options": each}) for each in (SHORT, dict(reversed(SHORT.items()))))
    assert first.settings == second.settings and first.verdicts == second.verdicts


def test_other_options_change_the_runs_of_their_study_alone():
    before = make_plan(s=ONE, other=ONE | {"model_options": {"width": 16}})
    after = make_plan(s=ONE, other=ONE | {"model_options": {"width": 32}})
    differing = {path for path in before.settings if before.settings[path] != after.settings[path]}
    assert {path.split("/")[0] for path in differing} == {"other"}
    assert len({*before.verdicts.values(), *after.verdicts.values()}) == 3


def test_a_list_of_models_has_the_options_of_each_below_its_name():
    options = {"resnet18": SHORT, "densenet121": {"blocks": [2, 1], "growth": 8}}
    plan = make_plan(s=ONE | {"model": ["resnet18", "densenet121", "small_cnn"], "model_options": options})
    apart = make_plan(s_resnet18=ONE | {"model_options": SHORT})
    assert plan.studies["s_resnet18"].describe() == apart.studies["s_resnet18"].describe()
    assert {name: each.config["model_options"] for name, each in plan.studies.items()} == {
        **{"s_resnet18": SHORT, "s_densenet121": options["densenet121"], "s_small_cnn": {}}
    }


def test_the_gate_draws_weights_of_the_short_network():
    weights = draw_task_weights("resnet18", (8, 8, 1), 10, **SHORT)
    assert weights["dense.kernel"].shape == (16, 10) and "stage3_block1_conv1.kernel" not in weights


def test_networks_are_named_after_their_options():
    assert name_network("resnet18", {}) == "resnet18"
    assert name_network("resnet18", SHORT) == NAME
    assert (describe_options({}), describe_options(SHORT)) == (None, "blocks 1 1, width 8")


def test_the_answer_names_the_options():
    said = [write_answer({"framework": "a", "model_options": each}).splitlines()[0] for each in (None, "width 8")]
    assert said[0].endswith("small_cnn on d") and said[1].endswith("small_cnn (width 8) on d")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"model_options": {"depth": 3}},
            'studies.s.model_options: unknown key "depth"; did you mean width?',
        ),
        ({"model_options": {"width": 0}}, "studies.s.model_options.width: 0 is too small; give at least 1"),
        ({"model_options": {"width": 9999}}, "studies.s.model_options.width: 9999 is too large; give at most 1024"),
        ({"model_options": {"width": 8.5}}, "model_options.width: 8.5 is not of type integer; write a whole number"),
        ({"model_options": {"width": True}}, "model_options.width: true is not of type integer; write a whole number"),
        ({"model_options": {"width": None}}, "model_options.width: null is not of type integer; give a value, or"),
        ({"model_options": {"blocks": 2}}, "studies.s.model_options.blocks: 2 is not of type array; write [2]"),
        ({"model_options": {"blocks": []}}, "studies.s.model_options.blocks: [] is empty; give at least one entry"),
        ({"model_options": {"blocks": [2, -1]}}, "model_options.blocks[1]: -1 is too small; give at least 1"),
        ({"model_options": {"blocks": [1] * 7}}, "blocks: [1, 1, 1, 1, 1, 1, 1] has 7 entries; give 6"),
        ({"model_options": [8]}, "studies.s.model_options: [8] is not of type object; write its keys below it"),
        ({"model_options": {"resnet18": SHORT}}, 'studies.s.model_options: unknown key "resnet18"'),
        (
            {"model": "small_cnn", "model_options": {"width": 8}},
            'studies.s.model_options: {"width": 8} is given, but small_cnn has no options; leave the key out',
        ),
        (
            {"model": ["resnet18", "resnet50"], "model_options": {"width": 8}},
            'studies.s.model_options: "width" is no model of this study\'s list; give the options of each model below '
            "its name, such as {resnet18: {...}}",
        ),
        (
            {"model": ["resnet18", "resnet50"], "model_options": {"resnet50": 8}},
            "studies.s.model_options.resnet50: 8 is not of type object; write its keys below it",
        ),
        (
            {"model": ["resnet18", "resnet50"], "model_options": {"resnet50": {"width": 0}}},
            "studies.s.model_options.resnet50.width: 0 is too small; give at least 1",
        ),
        (
            {"model": "densenet121"},
            'studies.s.model: "densenet121" leaves nothing of images of 8x8 pixels; take images of at least 29x29, or',
        ),
        (
            {"per_device_batch_size": [1]},
            "studies.s.per_device_batch_size: 1 leaves resnet18 one value per channel to normalise, because its last",
        ),
    ],
)
def test_wrong_options_of_models(changes, message):
    with pytest.raises(ConfigError) as error:
        make_plan(s=ONE | changes)
    assert message in str(error.value)


@pytest.mark.parametrize(("blocks", "smallest"), [([6, 12, 24, 16], 29), ([2, 2, 2], 13), ([2, 2], 5), ([2], 1)])
def test_densenets_with_fewer_blocks_take_smaller_images(blocks, smallest):
    given = ONE | {"model": "densenet121", "model_options": {"blocks": blocks}} | NOISE
    make_plan(images(smallest, 40), s=given)
    if smallest > 1:
        with pytest.raises(
            ConfigError, match=f"images of {smallest - 1}x40 pixels; take .* least {smallest}x{smallest}"
        ):
            make_plan(images(smallest - 1, 40), s=given)


@pytest.mark.parametrize(("framework", "family"), [("mxnet_gluon", "gluon"), ("chainer_mn", "chainer")])
def test_a_framework_that_lacks_a_layer_of_the_network_is_refused(framework, family):
    message = 'studies.s.model: "vit_b16" has layers that {} lacks: attention, gelu, layernorm, tokens; '
    message += "write measure/frameworks/{}/layers/attention.py or leave {} out"
    with pytest.raises(ConfigError) as error:
        make_plan(images(96), s=ONE | NOISE | {"model": "vit_b16", "frameworks": ["pytorch_ddp", framework]})
    assert message.format(framework, family, framework) in str(error.value)
    make_plan(images(96), s=ONE | NOISE | {"model": "vit_b16", "frameworks": ["pytorch_ddp", "jax_sharding"]})
    make_plan(images(96), s=ONE | NOISE | {"model": "inception_v3", "frameworks": [framework]})


@pytest.mark.parametrize(
    ("model", "options", "smallest"),
    [
        *(("alexnet", {}, 63), ("alexnet", {"kernel": 3, "stride": 1, "poolings": [1, 2]}, 5)),
        *(("vit_b16", {}, 16), ("vit_b16", {"patch": 4}, 4)),
        *(("inception_v3", {}, 75), ("inception_v3", {"stem": "small"}, 7)),
    ],
)
def test_networks_whose_strides_leave_nothing_say_how_large_images_must_be(model, options, smallest):
    given = ONE | NOISE | {"model": model, "model_options": options, "per_device_batch_size": [2]}
    make_plan(images(smallest), s=given)
    with pytest.raises(ConfigError, match=f"at least {smallest}x{smallest}"):
        make_plan(images(smallest - 1), s=given)


def test_a_network_without_batchnorm_takes_batches_of_one_image():
    small = {"kernel": 3, "stride": 1, "poolings": [1, 2, 5]}
    given = ONE | NOISE | {"model": "alexnet", "model_options": small, "per_device_batch_size": [1]}
    assert lay_out("alexnet", 5, **small).count_smallest_map((16, 16, 3)) == 1
    make_plan(images(16), s=given)


def test_batches_of_one_image_are_possible_with_larger_images_and_with_synchronized_statistics():
    single = ONE | NOISE | {"per_device_batch_size": [1]}
    make_plan(images(64), s=single)
    make_plan(images(32), s=single | {"num_gpus": [2], "batchnorm": "synchronized"})
    with pytest.raises(ConfigError, match="leaves resnet18 one value per channel"):
        make_plan(images(32), s=single | {"num_gpus": [2]})
